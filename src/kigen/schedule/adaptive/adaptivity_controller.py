"""Adaptivity Controller: the PI rule of ATS for k, the number of basic batches in a scheduling batch.

k := max(1, k - floor(Kp * dSDMR + Ki * SDMR)), after every execution. The paper leaves open over what span SDMR is
meant, and it matters: if both terms are running totals, dSDMR is almost nothing and k never leaves 1. The readings,
selectable:

- `totals`: SDMR and its difference are of all time;
- `execution`: the difference is between one execution and the one before; the integral term is of all time;
- `window`: both are of the last second;
- `mixed`: the difference between executions, the integral term of the last second;
- `overdue` (the default; ours): the difference between executions, the integral term the share of executed tasks that
  came late. Too long
  batches show as work done in vain, too short ones as tasks that expire while they wait; only the former may lower k.
  With any other
  reading, k is stuck at 1 once a tenth is missed, whatever the reason.

`docs/reference/reproductions.md` shows them side by side. Invariant: 1 <= k <= `largest`. Cost: O(1).
"""

from __future__ import annotations

import math

from kigen.schedule.adaptive.sdmr_monitor import SdmrMonitor

SDMR_READINGS = ("totals", "execution", "window", "mixed", "overdue")
DEFAULT_SDMR_READING = "overdue"


class AdaptivityController:
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
            raise ValueError(f"no reading '{reading}' of the controller: write one of {', '.join(SDMR_READINGS)}")
        self._monitor, self.kp, self.ki, self.reading = monitor, kp, ki, reading
        self.k, self._largest = max(1, start), largest
        self._before = 0.0

    def update(self) -> int:
        """After an execution that the monitor has seen: the new k."""
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
