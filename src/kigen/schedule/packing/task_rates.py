"""Arrival rates of tasks, with exponential forgetting. Cost: O(1) per arrival, one vector operation per decision."""

from __future__ import annotations

import math

import numpy as np

from kigen.schedule.policy_interface import Floats, Ints

MEMORY_US = 10_000_000.0


class ArrivalRates:
    """Rates of all tasks."""

    def __init__(self, tasks: int, memory_us: float = MEMORY_US) -> None:
        self._memory_us = memory_us
        self._weighted = np.zeros(tasks)  # arrivals, each weighted by its age
        self._span_us = 0.0  # time, weighted the same way
        self._new = np.zeros(tasks)
        self._at_us: float | None = None

    def arrived(self, task: int, count: int) -> None:
        self._new[task] += count

    def arrived_many(self, tasks: Ints, counts: Ints) -> None:
        np.add.at(self._new, tasks, counts)

    def advance(self, now_us: float) -> None:
        """Counts the arrivals since the last call as spread over that time."""
        if self._at_us is None:
            self._at_us = now_us
            self._new[:] = 0
            return
        passed_us = now_us - self._at_us
        if passed_us <= 0:
            return
        self._at_us = now_us
        kept = math.exp(-passed_us / self._memory_us)
        self._weighted *= kept
        self._weighted += self._new
        self._span_us = self._span_us * kept + passed_us
        self._new[:] = 0

    @property
    def per_us(self) -> Floats:
        """Tuples per microsecond, per task."""
        if not self._span_us:
            return np.zeros(len(self._weighted))
        return self._weighted / self._span_us
