"""The simple policies over whole batches: `all`, `fifo` and `edf`. Like `pack` they share the fixed cost over many
queries.

- `all` admits everything that waits, as plain Spark does.
- `fifo` admits the oldest arrivals first, in batches of at most the same predicted length as those of `pack`.
- `edf` admits the earliest deadlines first, as long as the earliest of them still holds. In overload its batches
  shrink, and the fixed cost takes all the time.
"""

from __future__ import annotations

import numpy as np

from kigen.schedule.packing.calendar_policy import CalendarPolicy
from kigen.schedule.packing.deadline_calendar import work_by_row
from kigen.schedule.policy_interface import Decision, Floats


class AdmitAll(CalendarPolicy):
    """Admits everything."""

    by_arrival = True

    def next(self, now_us: float) -> Decision:
        return self._decide(self._calendar.take_all(), [])

    def _finished(self, work_us: Floats) -> Floats:
        return np.full(len(work_us), work_us[-1])  # the results of a batch come together


class FifoPacking(CalendarPolicy):
    """Admits the oldest arrivals first."""

    by_arrival = True

    def next(self, now_us: float) -> Decision:
        waiting = self._calendar.view()
        if not len(waiting):
            return Decision()
        tuple_us = self.costs.costs_us.copy()
        budget_us = max(self.shortest_us / 2 - self.costs.fixed_us, self.costs.fixed_us)
        return self._decide(self._take_in_order(work_by_row(waiting, tuple_us), tuple_us, budget_us), [])


class EdfPacking(CalendarPolicy):
    """Admits the earliest deadlines first."""

    def next(self, now_us: float) -> Decision:
        dropped = self._drop_overdue(now_us)
        waiting = self._calendar.view()
        if not len(waiting):
            return self._decide(np.zeros(len(self.tasks)), dropped)
        tuple_us = self.costs.costs_us.copy()
        earliest_us = float(self._calendar.keys_us()[0])
        budget_us = max(earliest_us - now_us - self.costs.fixed_us, 0.0)
        return self._decide(self._take_in_order(work_by_row(waiting, tuple_us), tuple_us, budget_us), dropped)
