"""Draws the workload of `kigen bench deadlines`: twenty queries in deadline classes, each with bursts of its own.

A stream has four times its mean rate for a tenth of the time. Periods differ from stream to stream, so that bursts
coincide now and then. All queries have the same rate, and tuples cost the same within half. Load 1 is what the lanes
can do without any cost of rounds or tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kigen.schedule import ScheduledTask
from kigen.schedule.policy_interface import Floats
from kigen_lab.simulate.deadlines.workload import Workload

EVERY_S = (8.0, 12.0)
LASTING, BURST = 0.1, 6.0  # share of a period, and rate in a burst relative to the rate outside
ROUND_CLASSES_S = (0.1, 0.25, 0.5, 1.0, 5.0)
BATCH_CLASSES_S = (1.0, 2.0, 3.0, 5.0, 30.0)


@dataclass(frozen=True)
class Classes:
    """One cell of the experiment."""

    load: float = 0.85
    classes_s: tuple[float, ...] = ROUND_CLASSES_S
    queries: int = 20
    tuple_us: float = 150.0
    lanes: int = 2
    seconds: float = 120.0
    bursts: bool = True
    firm: bool = True
    guess_us: float = 152.0  # what the policy is told of a tuple's cost
    seed: int = 1


def draw_classes(setting: Classes) -> Workload:
    """Draws the tuples. Query i has the deadline of class i modulo the number of classes."""
    rng = np.random.default_rng([setting.seed, setting.queries, 3])
    rate = setting.load * setting.lanes / (setting.tuple_us * setting.queries)  # per microsecond and query
    span_us = setting.seconds * 1e6
    times: list[Floats] = []
    work: list[Floats] = []
    tasks: list[ScheduledTask] = []
    for index in range(setting.queries):
        count = int(rng.poisson(rate * span_us))
        even = np.sort(rng.uniform(0.0, span_us, count))
        times.append(_burst(even, rng) if setting.bursts else even)
        work.append(np.concatenate(([0.0], np.cumsum(setting.tuple_us * rng.uniform(0.5, 1.5, count)))))
        deadline_us = setting.classes_s[index % len(setting.classes_s)] * 1e6
        tasks.append(ScheduledTask(f"q{index}", deadline_us, setting.firm, setting.guess_us))
    together = np.concatenate(times)
    order = np.argsort(together, kind="stable")
    owners = np.repeat(np.arange(setting.queries), [len(own) for own in times])[order]
    return Workload(tuple(tasks), together[order], owners, tuple(times), tuple(work), (0.0, 0.0))


def _burst(even: Floats, rng: np.random.Generator) -> Floats:
    """Moves evenly spread arrivals into bursts."""
    every = float(rng.uniform(*EVERY_S)) * 1e6
    lasting = LASTING * every
    phase = float(rng.uniform(0.0, every - lasting))
    low = 1.0 / (LASTING * BURST + 1.0 - LASTING)
    done = [0.0, phase * low, phase * low + lasting * low * BURST, every]  # share of the tuples of a period by then
    periods, rest = np.divmod(even, every)
    return np.asarray(periods * every + np.interp(rest, done, [0.0, phase, phase + lasting, every]), np.float64)
