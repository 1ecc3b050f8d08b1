"""Adaptivity Controller: the PI rule of ATS for k, the number of basic batches in a scheduling batch.

k := max(1, k - floor(Kp * dSDMR + Ki * SDMR)), after every execution. The paper does not say over which span SDMR is
taken, and it matters: if both terms are running totals, dSDMR is almost 0 and k never leaves 1. These readings can be
selected:

- `totals`: SDMR and its difference are over all time.
- `execution`: the difference is between one execution and the previous one; the integral term is over all time.
- `window`: both are over the last second.
- `mixed`: the difference is between executions; the integral term is over the last second.
- `overdue` (the default; ours): the difference is between executions; the integral term is the share of executed tasks
  that were late. Batches that are too long show as useless work, batches that are too short as tasks that expire while
  they wait, and only the former may lower k. With any other reading, k stays at 1 once a tenth is missed, whatever the
  reason.

`docs/explanation/scheduling.md` shows them side by side. Invariant: 1 <= k <= `largest`. Cost: O(1).
"""

from __future__ import annotations

import math

from kigen.schedule.adaptive.sdmr_monitor import SdmrMonitor

SDMR_READINGS = ("totals", "execution", "window", "mixed", "overdue")
DEFAULT_SDMR_READING = "overdue"


class AdaptivityController:
    """Sets k after every execution."""

    def __init__(
        self,
        monitor: SdmrMonitor,
        kp: float = 1.0,
        ki: float = 10.0,
        reading: str = DEFAULT_SDMR_READING,
        start: int = 1,
        largest: int = 1_000_000,
    ) -> None:
        if reading not in SDMR_READINGS:
            raise ValueError(f"there is no reading '{reading}' of the SDMR: write one of {', '.join(SDMR_READINGS)}")
        self._monitor, self.kp, self.ki, self.reading = monitor, kp, ki, reading
        self.k, self._largest = max(1, start), largest
        self._before = 0.0

    def update(self) -> int:
        """Returns the new k after an execution that the monitor has counted."""
        monitor, reading = self._monitor, self.reading
        if reading == "totals":
            compared = integral = monitor.total
        elif reading == "execution":
            compared, integral = monitor.last, monitor.total
        elif reading == "window":
            compared = integral = monitor.window
        elif reading == "overdue":
            compared, integral = monitor.last, monitor.overdue
        else:
            compared, integral = monitor.last, monitor.window
        change = math.floor(self.kp * (compared - self._before) + self.ki * integral)
        self._before = compared
        self.k = min(self._largest, max(1, self.k - change))
        return self.k
