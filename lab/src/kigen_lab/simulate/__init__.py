"""Simulations in virtual time: the policies of `kigen.schedule` over the papers' workloads, millions of tuples in
seconds.
"""

from kigen_lab.simulate.deadlines.ideal import IDEAL, run_policy
from kigen_lab.simulate.deadlines.virtual_time import Outcome, simulate
from kigen_lab.simulate.deadlines.workload import Setting, Workload, draw

__all__ = ["IDEAL", "Outcome", "Setting", "Workload", "draw", "run_policy", "simulate"]
