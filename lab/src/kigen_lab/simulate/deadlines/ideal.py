"""Runs policies by name over a workload, and Ideal: no overhead, EDF one tuple at a time, S(Q) shedding with the true
mean costs.
"""

from __future__ import annotations

from dataclasses import replace

from kigen.schedule import Policy, PolicySettings, make_policy
from kigen.schedule.adaptive.scheduler import BatchScheduler
from kigen.schedule.cost_model import CostModel
from kigen_lab.simulate.deadlines.virtual_time import Outcome, simulate
from kigen_lab.simulate.deadlines.workload import Workload

IDEAL = "ideal"


def run_policy(name: str, workload: Workload, settings: PolicySettings | None = None, seed: int = 0) -> Outcome:
    """Simulates a policy, or Ideal.

    Policies begin with the workload's mean overhead and C_exec. The paper's policies keep them, `pack` continues to
    learn.
    """
    settings = replace(
        settings or PolicySettings(),
        fixed_us=workload.mean_overhead_us,
        task_us=0.0,
        learning=name == "pack",
        doubt=0.1,
    )
    if name == IDEAL:
        return simulate(workload, ideal_policy(workload), overhead=False, seed=seed)
    return simulate(workload, make_policy(name, workload.tasks, settings), seed=seed)


def ideal_policy(workload: Workload) -> Policy:
    costs = CostModel(workload.tasks, fixed_us=0.0, learning=False)
    return BatchScheduler(IDEAL, workload.tasks, costs, phi_us=0.0, predictive=True)
