"""Draws a workload like that of `kigen bench deadlines`: few queries in deadline classes, bursts, and the fixed cost of
Spark.

Load 1 is what one processor can do without any fixed cost. With a fixed cost F and a shortest deadline Dmin, at most
1 - 2F/Dmin of the time is left for work. At a higher load, at least 1 - (1 - 2F/Dmin)/load must be missed: `least_sdmr`.
"""

from __future__ import annotations

import numpy as np
from kigen_lab.simulate.deadlines.arrival_draws import arrival_times_us
from kigen_lab.simulate.deadlines.workload import Workload

from kigen.schedule import ScheduledTask

CLASSES_S = (1.0, 2.0, 3.0, 5.0, 30.0)


def draw_classes(
    load: float,
    *,
    fixed_us: float = 150_000.0,
    jitter: float = 0.15,
    queries: int = 20,
    seconds: float = 240.0,
    rate_per_s: float = 500.0,
    arrivals: str = "bursty",
    firm: bool = True,
    seed: int = 0,
) -> Workload:
    """Draws queries of equal rate and cost, whose deadlines go through the classes in turn.

    `jitter` is the relative, uniform spread of the fixed cost.
    """
    rng = np.random.default_rng([seed, queries, 2])
    cost_us = load * 1e6 / (queries * rate_per_s)
    count = int(seconds * rate_per_s)
    tasks, times, work = [], [], []
    for index in range(queries):
        arrived = arrival_times_us(arrivals, rng, count, 1e6 / rate_per_s)
        times.append(arrived)
        work.append(np.concatenate(([0.0], np.cumsum(cost_us * rng.uniform(0.5, 1.5, count)))))
        tasks.append(ScheduledTask(f"q{index}", CLASSES_S[index % len(CLASSES_S)] * 1e6, firm, 10.0))
    together = np.concatenate(times)
    order = np.argsort(together, kind="stable")
    owners = np.repeat(np.arange(queries), count)[order]
    overheads = fixed_us * (1 - jitter), fixed_us * (1 + jitter)
    return Workload(tuple(tasks), together[order], owners, tuple(times), tuple(work), overheads)


def least_sdmr(load: float, fixed_us: float, shortest_us: float) -> float:
    return max(0.0, 1 - (1 - 2 * fixed_us / shortest_us) / load)
