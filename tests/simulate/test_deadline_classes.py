"""Checks `pack` with a fixed cost as large as Spark's, in virtual time: what `kigen bench deadlines` must show."""

from __future__ import annotations

import numpy as np
from deadline_classes import CLASSES_S, draw_classes, least_sdmr
from kigen_lab.simulate import Outcome, Workload, simulate

from kigen.schedule import PolicySettings, make_policy

FIXED_US, SHORTEST_US = 150_000.0, 1e6


def run(name: str, load: float, arrivals: str = "bursty") -> tuple[Workload, Outcome]:
    workload = draw_classes(load, fixed_us=FIXED_US, seconds=120.0, arrivals=arrivals, seed=1)
    return workload, simulate(workload, make_policy(name, workload.tasks, PolicySettings(fixed_us=250_000.0)))


def shortest_class(workload: Workload, outcome: Outcome) -> float:
    of_class = range(0, len(workload.tasks), len(CLASSES_S))
    return float(np.mean([outcome.missed_by_task[i] / len(workload.task_times[i]) for i in of_class]))


def test_below_capacity_hardly_anything_is_missed() -> None:
    _, outcome = run("pack", 0.85 * (1 - 2 * FIXED_US / SHORTEST_US))
    assert outcome.sdmr <= 0.01


def test_overload_stays_near_the_bound_and_spares_the_urgent() -> None:
    workload, outcome = run("pack", 1.3, "poisson")
    assert outcome.sdmr <= least_sdmr(1.3, FIXED_US, SHORTEST_US) + 0.03
    assert shortest_class(workload, outcome) <= 0.05


def test_bursts_in_overload() -> None:
    workload, outcome = run("pack", 1.3)
    assert outcome.sdmr <= least_sdmr(1.3, FIXED_US, SHORTEST_US) + 0.03
    assert shortest_class(workload, outcome) <= 0.10, "bursts of the class itself may exceed the processor"
    _, plain = run("all", 1.3)
    assert 1 - outcome.sdmr >= 1.5 * (1 - plain.sdmr)
