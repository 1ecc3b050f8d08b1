"""Estimates how much longer work takes than its CPU time, because others use the cores too or because it waits.

The policy needs times, but the time of a single step depends on when the system let the worker run. CPU times are the
same each time. So a step is reported as its CPU time, stretched by the ratio of the two over the last seconds.
"""

from __future__ import annotations

_KEPT = 0.97  # weight of a round when the next one comes


class Stretch:
    """Ratio of elapsed time to CPU time in one lane."""

    def __init__(self) -> None:
        self._elapsed_us = self._worked_us = 0.0

    def stretched(self, worked_us: dict[str, float], elapsed_us: float) -> dict[str, float]:
        """Takes the CPU time of each task in a round, and how long they took together. Returns estimated times."""
        self._elapsed_us = _KEPT * self._elapsed_us + elapsed_us
        self._worked_us = _KEPT * self._worked_us + sum(worked_us.values())
        factor = max(1.0, self._elapsed_us / max(self._worked_us, 1.0))
        return {task: factor * us for task, us in worked_us.items()}
