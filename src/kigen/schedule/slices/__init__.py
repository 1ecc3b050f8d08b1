"""Shared window joins: decides which slices of which tuples run next.

Pure: arrivals and evictions in, units of work out.
"""

from kigen.schedule.slices.mandf import AdMandF, MandF
from kigen.schedule.slices.orders import Fifo, Mqt
from kigen.schedule.slices.salvage import Salvage
from kigen.schedule.slices.slice_admission import ADMITTED_NAMES, SliceAdmission, SlicedTask
from kigen.schedule.slices.slice_interface import SlicePolicy, Unit
from kigen.schedule.slices.slice_policies import (
    SLICE_POLICY_NAMES,
    SlicePolicyError,
    make_slice_policy,
)

__all__ = [
    "ADMITTED_NAMES",
    "SLICE_POLICY_NAMES",
    "AdMandF",
    "Fifo",
    "MandF",
    "Mqt",
    "Salvage",
    "SliceAdmission",
    "SlicePolicy",
    "SlicePolicyError",
    "SlicedTask",
    "Unit",
    "make_slice_policy",
]
