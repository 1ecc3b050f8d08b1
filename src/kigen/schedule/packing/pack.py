"""`pack`, Kigen's own policy: many queries share one batch, and the predicted length T of a batch is capped.

A batch is a micro-batch, or a round inside an epoch. It costs F, and A for each task in it, and c for each tuple. A
tuple that just missed a batch waits for it and then for its own, so two batches and some slack must fit into the
shortest deadline: 2T + slack <= Dmin. Results count when the sink has recorded them, so a deadline is as much shorter
as that takes. Within T, in this order:

1. If everything that waits fits, everything is admitted.
2. Tasks are ranked by `overload`: shortest deadlines first, cheapest tuples first, or the least product of the two
   first (the default: the most results in time, and the urgent ones among equally expensive ones). The first tasks of
   the ranking are **protected**: as many as can keep all their deadlines, given what waits and what is to come
   (`due_work`). If not all tasks are, there is overload. Each decision finds that anew.
3. Of protected tasks, by rank, whatever would be late in the next batch goes into this one. Then the most urgent ones
   among them give their whole queues, so that they need not be taken again soon: those whose oldest tuple is due within
   two batches, or has a third of its deadline left.
4. The remaining time goes to the earliest deadlines of all other tasks whose backlog is worth what a task costs; in
   overload, much cheaper tuples go first, or whatever `overload` says.

FIRM tuples are dropped only when they are as good as late: at the latest moment, and never because there is overload.

Without any deadline, T is two seconds or 40 times the fixed costs: the results of a batch are seen at its end, and a
batch that is killed begins again. A backlog is then taken in the order of arrival.

If not even the fixed costs fit into T, a batch holds as much work as they are: more batches would only cost more of
them. Cost per decision: some vector operations over (32 moments x tasks) numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kigen.schedule.cost_model import CostModel
from kigen.schedule.packing.due_work import due_work, moments_us
from kigen.schedule.packing.queue_policy import Bools, QueuePolicy
from kigen.schedule.packing.task_rates import ArrivalRates
from kigen.schedule.policy_interface import Decision, Floats, Ints, ScheduledTask

OVERLOAD_ORDERS = ("product", "shortest", "cheapest", "edf")
PROTECTED_LOAD = 0.95
_SHARE = 0.47  # of the shortest deadline: the longest batch
_LONGEST = 40.0  # in fixed costs: a longer batch would save less than 2.5 % of the time, and decide later
_UNHURRIED_US = 2e6  # length of a batch if no task has a deadline
_AMPLE, _MOST = 1.2, 0.6  # if the fixed cost is too high: length by what the load needs, and limit by deadline
_MEMORY_US = 5e6  # of arrival rates
_WAITS = 0.2  # in batches: how long finished work waits, on average, for the end of its batch
_NEXT = 2.1  # in batches: what is due until then may be late in the next batch
_LITTLE = 0.35  # share of a deadline: a task whose oldest tuple has less left is urgent
_WORTH = 8.0  # times the cost of a task: the backlog that makes it worth taking before it is urgent
_CHEAPER = 4.0  # factor between costs of tuples that counts more than deadlines, in overload
_FULL = 0.01  # share of a batch that is not worth filling
_SURELY = 0.5  # share of the fixed cost that is certain to pass


class Pack(QueuePolicy):
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
        self._arrivals = ArrivalRates(len(self.tasks), _MEMORY_US)
        self.overloaded = False

    def arrived(self, task: int, count: int, arrival_us: float) -> None:
        super().arrived(task, count, arrival_us)
        self._arrivals.arrived(task, count)

    def arrived_many(self, tasks: Ints, counts: Ints, arrivals_us: Floats) -> None:
        super().arrived_many(tasks, counts, arrivals_us)
        self._arrivals.arrived_many(tasks, counts)

    def cap_us(self) -> float:
        """Returns T: how long a batch may take, the fixed cost included."""
        once_us = self.costs.fixed_us + self.costs.task_us
        if math.isinf(self.shortest_us):
            return max(_UNHURRIED_US, _LONGEST * once_us)
        shortest_us = max(self.shortest_us - self.recording_us, self.shortest_us / 2)
        surely_us = max(shortest_us / 2 - 2 * self.costs.noise_us, shortest_us / 3)
        enough_us = max(_LONGEST * once_us, shortest_us / 10)
        cap_us = min(_SHARE * shortest_us, surely_us, enough_us)
        if cap_us >= 2 * once_us:
            return cap_us
        # The fixed cost is too high for the shortest deadline. Short batches would only lose more to it.
        idle = 1.0 - float(self._arrivals.per_us @ self.costs.costs_us)
        ample_us = _AMPLE * once_us / idle if idle > 0 else math.inf
        return max(2 * once_us, min(ample_us, _MOST * self.shortest_us))

    def next(self, now_us: float) -> Decision:
        self._arrivals.advance(now_us)
        queues, dropped = self.queues, dict[int, int]()
        if not queues.pending.any():
            return self._decide({})
        fixed_us, cap_us = self.costs.fixed_us, self.cap_us()
        now_us += self.recording_us  # as if all that runs now ended that much later
        lost_us = now_us + _SURELY * fixed_us
        self._drop_before(self._worthless_before(lost_us), lost_us, dropped)
        waiting = queues.pending > 0
        if self._all_us(waiting) <= cap_us:
            self.overloaded = False
            return self._decide(queues.take_all(), dropped)
        if math.isinf(self.shortest_us):
            heads_us = queues.heads_us
            return self._decide(self._take_in_order(lambda task: float(heads_us[task]), cap_us - fixed_us))
        ranking = self._ranking()
        safe = self._safe(ranking, now_us, cap_us)
        self.overloaded = not bool(safe.all())
        batch = _Batch(self, now_us, cap_us, dropped)
        self._fill(batch, ranking, waiting, safe)
        return self._decide(batch.close() or self._one(ranking), dropped)

    def _safe(self, ranking: Ints, now_us: float, cap_us: float) -> Bools:
        """Returns which tasks are protected: the longest start of the ranking that can keep all its deadlines."""
        safe = np.ones(len(ranking), bool)
        if self._overload == "edf":
            return safe
        moments = moments_us(self.queues, now_us, now_us + self.costs.fixed_us)
        if not len(moments):
            return safe
        work_us = due_work(self.queues, self.costs, now_us, moments, self._arrivals.per_us)
        room_us = (moments - now_us - _WAITS * cap_us) * (1 - self.costs.fixed_us / cap_us)
        room_us = np.maximum(room_us, 0.0) * self._protected
        fits = (np.cumsum(work_us[:, ranking], axis=1) <= room_us[:, None]).all(axis=0)
        if not fits.all():
            safe[ranking[int(np.argmin(fits)) :]] = False
        return safe

    def _ranking(self) -> Ints:
        """Returns the tasks in the order of `overload`."""
        tuple_us, deadlines_us = self.costs.costs_us, self.queues.deadlines_us
        if self._overload == "cheapest":
            return np.lexsort((deadlines_us, tuple_us))
        if self._overload == "product":
            return np.argsort(deadlines_us * tuple_us, kind="stable")
        return np.lexsort((tuple_us, deadlines_us))

    def _fill(self, batch: _Batch, ranking: Ints, waiting: Bools, safe: Bools) -> None:
        """Fills a batch in the order that the head of this file describes."""
        queues, now_us, cap_us = self.queues, batch.now_us, batch.cap_us
        heads_us = queues.heads_us.copy()
        next_us = now_us + _NEXT * cap_us + min(4 * self.costs.noise_us, cap_us)
        for task in ranking[(waiting & safe & (heads_us < next_us))[ranking]].tolist():
            if batch.full:
                return
            batch.give(task, queues.due_before(task, next_us))
        urgent = waiting & (heads_us - now_us <= np.maximum(2 * cap_us, _LITTLE * queues.deadlines_us))
        for task in _by(heads_us, urgent & safe):
            if batch.full:
                return
            batch.give(task, math.inf)
        rest = waiting & ~(urgent & safe)
        backlog_us = queues.pending * self.costs.costs_us
        worth = rest & ((backlog_us >= _WORTH * self.costs.tasks_us) | ~safe)
        for task in self._others(ranking, worth, heads_us) or _by(-backlog_us, rest)[:1]:
            if batch.full:
                return
            batch.give(task, math.inf)

    def _others(self, ranking: Ints, chosen: Bools, heads_us: Floats) -> list[int]:
        """Returns the order of tasks that are not both protected and urgent.

        Earliest deadline first: what has time may outlast an overload. In overload, for the product, much cheaper
        tuples go before it; for the other orders, the rank decides alone.
        """
        if not self.overloaded:
            return _by(heads_us, chosen)
        if self._overload != "product":
            return [int(task) for task in ranking[chosen[ranking]]]
        tasks = np.flatnonzero(chosen)
        if not len(tasks):
            return []
        tuple_us = self.costs.costs_us[tasks]
        price = np.floor(np.log(tuple_us / np.median(tuple_us)) / math.log(_CHEAPER) + 0.5)
        return [int(task) for task in tasks[np.lexsort((heads_us[tasks], price))]]

    def _one(self, ranking: Ints) -> dict[int, int]:
        """Takes one tuple. A tuple that is longer than a whole batch must run all the same."""
        for task in ranking.tolist():
            if self.queues.take(task, 1.0):
                return {task: 1}
        return {}

    def drop_lost(self, task: int, end_us: float, dropped: dict[int, int]) -> None:
        """Drops what a batch that ends then would bring too late. Without overload it runs: the end is not certain."""
        if self.overloaded and self._firm[task]:
            self._drop_before((task,), end_us, dropped)

    def _rates(self) -> Floats:
        return self._arrivals.per_us

    def _with_fixed(self, work_us: Floats) -> Floats:
        cap_us = self.cap_us()
        return self.costs.fixed_us + work_us / (1 - self.costs.fixed_us / cap_us)

    def report(self) -> dict[str, Any]:
        cap_us = self.cap_us()
        return {**super().report(), "cap_us": cap_us, "overload": self.overloaded}


class _Batch:
    """A batch that is being filled. In overload, FIRM tuples that cannot survive it are dropped as it takes a task."""

    def __init__(self, policy: Pack, now_us: float, cap_us: float, dropped: dict[int, int]) -> None:
        self._policy, self.now_us, self.cap_us, self._dropped = policy, now_us, cap_us, dropped
        self._left_us = cap_us - policy.costs.fixed_us
        self._taken: dict[int, int] = {}

    @property
    def full(self) -> bool:
        return self._left_us <= _FULL * self.cap_us

    def give(self, task: int, count: float) -> None:
        """Takes up to `count` of the task's oldest tuples, as many as fit."""
        policy, queues, costs = self._policy, self._policy.queues, self._policy.costs
        own_us = 0.0 if task in self._taken else float(costs.tasks_us[task])
        tuple_us = float(costs.costs_us[task])
        fits = math.floor((self._left_us - own_us) / tuple_us + 1e-9)
        if fits < 1:
            return
        if task not in self._taken:
            policy.drop_lost(task, self.now_us + self.cap_us, self._dropped)
        taken = int(queues.take(task, min(count, fits)))
        if taken:
            self._taken[task] = self._taken.get(task, 0) + taken
            self._left_us -= own_us + taken * tuple_us

    def close(self) -> dict[int, int]:
        return self._taken


def _by(key: Floats, chosen: Bools) -> list[int]:
    """Returns the chosen tasks in the order of `key`."""
    tasks = np.flatnonzero(chosen)
    return [int(task) for task in tasks[np.argsort(key[tasks], kind="stable")]]
