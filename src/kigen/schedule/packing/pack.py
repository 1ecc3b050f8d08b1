"""`pack`, Kigen's own policy: many queries share one batch, and the predicted length T of a batch is capped.

A tuple that just missed a batch waits for it and then for its own, so two batches and some slack must fit into the
shortest deadline: 2T + slack <= Dmin. Within T, in this order:

1. FIRM tuples that cannot survive the batch are dropped.
2. If everything fits, everything is admitted. If all deadlines hold in EDF order, the most urgent tuples are admitted.
3. Otherwise there is overload, and EDF would only serve what is nearly late. Tasks are ranked, by `overload`: shortest
   deadlines first, cheapest tuples first, or the least product of the two first (the default: the most results in time,
   and the urgent ones among equally expensive ones). The first tasks of the ranking, up to 95 % of what the processor
   can do, are protected: they go first, in EDF order. The others get the remaining time.

If not even the fixed cost F fits into T, a batch holds as much work as F: more batches would only cost more of it. Cost
per decision: some vector operations over (slots x tasks) numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kigen.schedule.cost_model import CostModel
from kigen.schedule.packing.calendar_policy import CalendarPolicy, fill
from kigen.schedule.packing.deadline_calendar import work_by_row
from kigen.schedule.packing.task_rates import ArrivalRates
from kigen.schedule.policy_interface import Decision, Floats, Ints, ScheduledTask

OVERLOAD_ORDERS = ("product", "shortest", "cheapest", "edf")
PROTECTED_LOAD = 0.95
_SLACK = 0.04  # share of the shortest deadline, besides the slack for the spread of predictions
_LONGEST = 40.0  # in fixed costs: a longer batch would save less than 2.5 % of the time, and decide later


class Pack(CalendarPolicy):
    """The default policy."""

    def __init__(
        self,
        name: str,
        tasks: Sequence[ScheduledTask],
        costs: CostModel,
        phi_us: float,
        overload: str = "product",
        protected: float = PROTECTED_LOAD,
    ) -> None:
        super().__init__(name, tasks, costs, phi_us)
        if overload not in OVERLOAD_ORDERS:
            raise ValueError(f"there is no overload order '{overload}': write one of {', '.join(OVERLOAD_ORDERS)}")
        self._overload, self._protected = overload, protected
        self._rates = ArrivalRates(len(self.tasks))
        self.overloaded = False

    def arrived(self, task: int, count: int, arrival_us: float) -> None:
        super().arrived(task, count, arrival_us)
        self._rates.arrived(task, count)

    def arrived_many(self, tasks: Ints, counts: Ints, arrivals_us: Floats) -> None:
        super().arrived_many(tasks, counts, arrivals_us)
        self._rates.arrived_many(tasks, counts)

    def cap_us(self) -> float:
        """Returns T: how long a batch may take, the fixed cost included."""
        if math.isinf(self.shortest_us):
            return math.inf
        slack_us = min(_SLACK * self.shortest_us + 2 * self.costs.noise_us, self.shortest_us / 3)
        fixed_us = self.costs.fixed_us
        enough_us = max(_LONGEST * fixed_us, self.shortest_us / 10)
        return max(min((self.shortest_us - slack_us) / 2, enough_us), 2 * fixed_us)

    def next(self, now_us: float) -> Decision:
        self._rates.advance(now_us)
        waiting = self._calendar.view()
        if not len(waiting):
            self._dropped_now = 0
            return Decision()
        tuple_us = self.costs.costs_us.copy()
        fixed_us = self.costs.fixed_us + self.costs.task_us * int(np.count_nonzero(self._calendar.pending))
        cap_us = self.cap_us()
        length_us = min(cap_us, fixed_us + float(self._calendar.pending @ tuple_us))
        dropped = self._drop_overdue(now_us + length_us)
        waiting = self._calendar.view()
        if fixed_us + float(self._calendar.pending @ tuple_us) <= cap_us:
            self.overloaded = False
            return self._decide(self._calendar.take_all(), dropped)
        work_us = work_by_row(waiting, tuple_us)
        budget_us = max(cap_us - fixed_us, self.costs.fixed_us)
        # Overload lasts until nothing is left over: the waiting tuples may be feasible for a moment although the next
        # ones are not.
        self.overloaded = self.overloaded or not self._feasible(work_us, now_us, cap_us)
        if not self.overloaded or self._overload == "edf":
            return self._decide(self._take_in_order(work_us, tuple_us, budget_us), dropped)
        return self._decide(self._take_ranked(waiting, tuple_us, budget_us, now_us), dropped)

    def _feasible(self, work_us: Floats, now_us: float, cap_us: float) -> bool:
        """Returns whether every deadline holds if all waiting tuples run in EDF order, in batches of the capped
        length.
        """
        stretch = cap_us / (cap_us - self.costs.fixed_us)
        done_us = now_us + np.cumsum(work_us) * stretch + (cap_us - self.costs.fixed_us)
        return bool((done_us <= self._calendar.keys_us())[work_us > 0].all())

    def _ranking(self, tuple_us: Floats) -> Ints:
        """Returns the tasks in the order of `overload`."""
        if self._overload == "cheapest":
            return np.lexsort((self.deadlines_us, tuple_us))
        if self._overload == "product":
            return np.argsort(self.deadlines_us * tuple_us, kind="stable")
        return np.lexsort((tuple_us, self.deadlines_us))

    def _take_ranked(self, waiting: Floats, tuple_us: Floats, budget_us: float, now_us: float) -> Floats:
        """Takes the protected tasks in EDF order, as long as all their deadlines hold, then the others by rank."""
        ranking = self._ranking(tuple_us)
        able = self._protected * budget_us / (budget_us + self.costs.fixed_us)
        load = np.cumsum((self._rates.per_us * tuple_us)[ranking])
        first = np.zeros(len(tuple_us))
        first[ranking[load <= able]] = 1.0
        if not self._feasible(work_by_row(waiting, tuple_us * first), now_us, budget_us + self.costs.fixed_us):
            first[:] = 0.0  # a burst among the protected tasks: only the rank decides
        taken = self._take_protected(waiting, first, tuple_us, budget_us)
        left_us = budget_us - float(taken @ tuple_us)
        others = ranking[first[ranking] == 0]
        part = fill(self._calendar.pending[others], tuple_us[others], left_us)
        whole = part == self._calendar.pending[others]  # all but one, at most, are taken whole or not at all
        for task, count in zip(others[~whole & (part > 0)].tolist(), part[~whole & (part > 0)].tolist(), strict=True):
            self._calendar.take_oldest(task, count)
        self._calendar.take_tasks(others[whole])
        taken[others] += part
        return taken if taken.any() else self._one(ranking)

    def _take_protected(self, waiting: Floats, first: Floats, tuple_us: Floats, budget_us: float) -> Floats:
        """Takes the tuples of the tasks in `first`, in EDF order, up to the budget."""
        work_us = np.cumsum(work_by_row(waiting, tuple_us * first))
        rows = int(np.searchsorted(work_us, budget_us, side="right"))
        taken = self._calendar.take_rows(rows, first)
        if rows < len(work_us):
            left_us = budget_us - (float(work_us[rows - 1]) if rows else 0.0)
            part = fill(waiting[rows] * first, tuple_us, left_us)
            waiting[rows] -= part
            self._calendar.pending -= part
            taken = taken + part
        return taken

    def _one(self, ranking: Ints) -> Floats:
        """Takes one tuple. A tuple that is longer than a whole batch must run all the same."""
        taken = np.zeros(len(ranking))
        task = int(next(t for t in ranking if self._calendar.pending[t] > 0))
        self._calendar.take_oldest(task, 1.0)
        taken[task] = 1.0
        return taken

    def report(self) -> dict[str, Any]:
        cap_us = self.cap_us()
        return {**super().report(), "cap_us": None if math.isinf(cap_us) else cap_us, "overload": self.overloaded}
