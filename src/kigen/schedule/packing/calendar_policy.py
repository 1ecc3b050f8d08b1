"""Base of the policies over a deadline calendar: adds arrivals, takes rows in order up to a budget, handles completion.

A calendar has at most `ROWS` slots. Tasks without a deadline, or with one beyond the calendar, are planned as if their
deadline were at its end. So they are served in time but never before urgent ones, and they are never dropped for being
late. Cost: a handful of vector operations per decision, however much waits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kigen.schedule.adaptive.sdmr_monitor import SdmrMonitor
from kigen.schedule.cost_model import CostModel
from kigen.schedule.packing.deadline_calendar import DeadlineCalendar, grants, work_by_row
from kigen.schedule.policy_interface import Completion, Decision, Floats, Grant, Ints, Policy, ScheduledTask

ROWS = 2048
_FINEST = 50  # slots per shortest deadline


class CalendarPolicy(Policy):
    """Policy whose queue is a deadline calendar."""

    fed_by_arrays = True
    by_arrival = False  # rows are slots of arrival instead of slots of deadlines

    def __init__(self, name: str, tasks: Sequence[ScheduledTask], costs: CostModel, phi_us: float) -> None:
        super().__init__(tasks)
        self.name, self.costs = name, costs
        self.monitor = SdmrMonitor()
        deadlines = np.array([math.inf if t.deadline_us is None else float(t.deadline_us) for t in tasks])
        self.shortest_us = float(deadlines.min(initial=math.inf))
        self.grain_us = min(phi_us, self.shortest_us / _FINEST)
        self._horizon_us = ROWS * self.grain_us
        self.deadlines_us = deadlines
        self._planned_us = np.zeros(len(tasks)) if self.by_arrival else np.minimum(deadlines, self._horizon_us)
        firm = np.array([t.firm for t in tasks], bool)
        self._droppable = (firm & (deadlines <= self._horizon_us)).astype(np.float64)
        self._calendar = DeadlineCalendar(len(tasks), self.grain_us, ROWS + ROWS // 2)
        self._dropped_now = 0

    def arrived(self, task: int, count: int, arrival_us: float) -> None:
        self.monitor.born += count
        self._calendar.file(task, count, arrival_us + float(self._planned_us[task]))

    def arrived_many(self, tasks: Ints, counts: Ints, arrivals_us: Floats) -> None:
        self.monitor.born += int(counts.sum())
        self._calendar.file_many(tasks, counts, arrivals_us + self._planned_us[tasks])

    def evict(self, task: int, count: int) -> None:
        self.monitor.missed += count
        self._calendar.view()
        self._calendar.take_oldest(task, count)

    def completed(self, done: Completion) -> None:
        decided = sum(count for _, count in done.admitted) + self._dropped_now
        self.monitor.executed(done.finished_us, decided, done.missed + self._dropped_now)
        self.costs.observe(done.admitted, done.elapsed_us, done.task_elapsed_us)

    def pending(self, task: int) -> int:
        return int(self._calendar.pending[task])

    def outlook(self, now_us: float) -> tuple[Floats, Floats]:
        waiting = self._calendar.view()
        if not len(waiting):
            return np.zeros(0), np.zeros(0)
        due_us = self._calendar.keys_us()
        if self.by_arrival:
            due_us = due_us + np.where(waiting > 0, self.deadlines_us, math.inf).min(axis=1)
        once_us = self.costs.fixed_us + float(self.costs.tasks_us[self._calendar.pending > 0].sum())
        work_us = work_by_row(waiting, self.costs.costs_us.copy())
        done_us = now_us + once_us + self._finished(np.cumsum(work_us))
        limited = (work_us > 0) & np.isfinite(due_us)
        return due_us[limited], done_us[limited]

    def _finished(self, work_us: Floats) -> Floats:
        """Returns how much work is done when the results of each row come, given the work up to the end of it."""
        return work_us

    def report(self) -> dict[str, Any]:
        return {"policy": self.name, "sdmr": self.monitor.total, "costs": self.costs.report()}

    def _drop_overdue(self, before_us: float) -> list[Grant]:
        """Drops the tuples of FIRM tasks that fall due before then."""
        self._dropped_now = 0
        if not self._droppable.any() or not len(self._calendar.view()):
            return []
        # A row holds the keys of one grain, so it is due, on average, half a grain after its start.
        rows = int(np.searchsorted(self._calendar.keys_us() + self.grain_us / 2, before_us))
        if not rows:
            return []
        dropped = grants(self._calendar.take_rows(rows, self._droppable))
        self._dropped_now = sum(count for _, count in dropped)
        return dropped

    def _take_in_order(self, work_us: Floats, tuple_us: Floats, budget_us: float) -> Floats:
        """Takes the oldest rows that fit into the budget, and what fits of the next row; at least one tuple."""
        sums = np.cumsum(work_us)
        rows = int(np.searchsorted(sums, budget_us, side="right"))
        if rows >= len(work_us):
            return self._calendar.take_all()
        row = self._calendar.view()[rows]
        left_us = budget_us - (sums[rows - 1] if rows else 0.0)
        part = fill(row, tuple_us, left_us)
        taken = self._calendar.take_rows(rows) if rows else np.zeros(len(row))
        if not part.any() and not taken.any():
            part[int(np.flatnonzero(row)[0])] = 1.0
        # `view` may have moved past the emptied rows: the row taken in part is now the oldest.
        row -= part
        self._calendar.pending -= part
        return taken + part

    def _decide(self, taken: Floats, dropped: list[Grant]) -> Decision:
        admit = grants(taken)
        if not admit and self._dropped_now:
            self.monitor.missed += self._dropped_now
        return Decision(admit, dropped, self.costs.predict_us(admit) if admit else 0.0)


def fill(counts: Floats, tuple_us: Floats, budget_us: float) -> Floats:
    """Returns as many whole tuples of `counts` as fit into the budget, task after task in the given order."""
    work_us = counts * tuple_us
    left_us = budget_us - (np.cumsum(work_us) - work_us)
    return np.clip(np.floor(np.maximum(left_us, 0.0) / tuple_us + 1e-9), 0.0, counts)
