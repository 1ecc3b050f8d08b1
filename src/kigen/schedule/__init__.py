"""Decides which basic batches of which tasks run next, given their deadlines.

Pure: events in, decisions out; no clock, no I/O, no threads.
"""

from kigen.schedule.adaptive.adaptivity_controller import SDMR_READINGS
from kigen.schedule.cost_model import CostModel
from kigen.schedule.load_shedder import LoadShedder
from kigen.schedule.policies import DEFAULT_POLICY, POLICY_NAMES, PolicyError, PolicySettings, make_policy
from kigen.schedule.policy_interface import Completion, Decision, Grant, Policy, ScheduledTask
from kigen.schedule.policy_spec import read_policy

__all__ = [
    "DEFAULT_POLICY",
    "POLICY_NAMES",
    "SDMR_READINGS",
    "Completion",
    "CostModel",
    "Decision",
    "Grant",
    "LoadShedder",
    "Policy",
    "PolicyError",
    "PolicySettings",
    "ScheduledTask",
    "make_policy",
    "read_policy",
]
