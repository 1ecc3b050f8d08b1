"""Base of the policies over queues of tasks: adds arrivals, takes slots in order up to a budget, handles completion.

Tasks without a deadline are planned as if they had a long one: twice the longest of the others, at least ten seconds.
So they are served in time but never before urgent ones, and they are never dropped. Cost: O(1) per slot that arrives or
leaves, and some vector operations over tasks per decision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import numpy.typing as npt

from kigen.schedule.adaptive.sdmr_monitor import SdmrMonitor
from kigen.schedule.cost_model import CostModel
from kigen.schedule.packing.due_work import due_work, thinned
from kigen.schedule.packing.task_queues import TaskQueues
from kigen.schedule.policy_interface import Completion, Decision, Floats, Grant, Ints, Policy, ScheduledTask

Bools = npt.NDArray[np.bool_]
_WHENEVER_US = 10e6


class QueuePolicy(Policy):
    """Policy whose queues are slots of due times. `together`: the results of all that waits come at once."""

    fed_by_arrays = True
    together = False

    def __init__(self, name: str, tasks: Sequence[ScheduledTask], costs: CostModel, phi_us: float) -> None:
        super().__init__(tasks)
        self.name, self.costs = name, costs
        self.monitor = SdmrMonitor()
        asked = [math.inf if task.deadline_us is None else float(task.deadline_us) for task in tasks]
        self.deadlines_us = np.array(asked)
        finite = [deadline_us for deadline_us in asked if deadline_us < math.inf]
        self.shortest_us = min(finite, default=math.inf)
        whenever_us = max(_WHENEVER_US, 2 * max(finite, default=0.0))
        self.queues = TaskQueues([min(deadline_us, whenever_us) for deadline_us in asked], phi_us)
        self._firm = np.array([task.firm for task in tasks], bool) & np.isfinite(self.deadlines_us)
        self._spare_us = np.array([task.spare_us for task in tasks])
        self._dropped_now = 0
        self.recording_us = 0.0  # of the last batch

    def arrived(self, task: int, count: int, arrival_us: float) -> None:
        self.monitor.born += count
        self.queues.add(task, count, arrival_us)

    def arrived_many(self, tasks: Ints, counts: Ints, arrivals_us: Floats) -> None:
        self.monitor.born += int(counts.sum())
        self.queues.add_many(tasks, counts, arrivals_us)

    def evict(self, task: int, count: int) -> None:
        self.monitor.missed += count
        self.queues.take(task, count)

    def completed(self, done: Completion) -> None:
        decided = sum(count for _, count in done.admitted) + self._dropped_now
        self.monitor.executed(done.finished_us, decided, done.missed + self._dropped_now)
        self.costs.observe(done.admitted, done.elapsed_us, done.task_elapsed_us)
        self.recording_us = done.recording_us

    def pending(self, task: int) -> int:
        return int(self.queues.pending[task])

    def outlook(self, now_us: float, shortest_us: float = 0.0) -> tuple[Floats, Floats]:
        shown = (self.queues.pending > 0) & np.isfinite(self.deadlines_us) & (self.deadlines_us >= shortest_us)
        if not shown.any():
            return np.zeros(0), np.zeros(0)
        due_us = thinned(np.concatenate((self.queues.heads_us[shown], self.queues.tails_us[shown])))
        work_us = due_work(self.queues, self.costs, now_us, due_us, self._rates()).sum(axis=1)
        if self.together:
            work_us[:] = self._all_us(self.queues.pending > 0) - self.costs.fixed_us
        return due_us, now_us + self._with_fixed(work_us)

    def _rates(self) -> Floats | None:
        """Returns the arrivals to expect, per microsecond and task."""
        return None

    def _with_fixed(self, work_us: Floats) -> Floats:
        """Returns how long work takes with the fixed costs of its batches."""
        return work_us + self.costs.fixed_us

    def _all_us(self, tasks: Bools) -> float:
        """Returns the length of a batch of all that waits of these tasks."""
        own_us = self.costs.tasks_us + self.queues.pending * self.costs.costs_us
        return self.costs.fixed_us + float(own_us[tasks].sum())

    def _worthless_before(self, before_us: float) -> list[int]:
        """Returns the FIRM tasks whose oldest tuple is worthless before then."""
        return np.flatnonzero(self._firm & (self.queues.heads_us + self._spare_us < before_us)).tolist()

    def _drop_before(self, tasks: Iterable[int], before_us: float, dropped: dict[int, int]) -> None:
        """Drops what these tasks have that is worthless before then."""
        for task in tasks:
            count = int(self.queues.take_before(task, before_us - float(self._spare_us[task])))
            if count:
                dropped[task] = dropped.get(task, 0) + count

    def _take_in_order(self, key: Callable[[int], float], budget_us: float) -> dict[int, int]:
        """Takes slots in the order of `key` of each task's head, as long as they fit; at least one tuple.

        What a task costs by itself is counted once.
        """
        queues, tuple_us, task_us = self.queues, self.costs.costs_us, self.costs.tasks_us
        heap = [(key(task), task) for task in np.flatnonzero(queues.pending).tolist()]
        heapify(heap)
        taken: dict[int, int] = {}
        while heap:
            _, task = heappop(heap)
            own_us = 0.0 if task in taken else float(task_us[task])
            fits = math.floor((budget_us - own_us) / float(tuple_us[task]) + 1e-9) if budget_us < math.inf else 2**62
            offered = queues.head_count(task)
            count = int(min(offered, fits))
            if count <= 0 and taken:
                break
            count = max(count, 1)
            queues.take(task, count)
            taken[task] = taken.get(task, 0) + count
            budget_us -= own_us + count * float(tuple_us[task])
            if count < offered:
                break
            if queues.pending[task]:
                heappush(heap, (key(task), task))
        return taken

    def _decide(self, taken: dict[int, int], dropped: dict[int, int] | None = None) -> Decision:
        admit: list[Grant] = sorted(taken.items())
        gone = sorted((dropped or {}).items())
        self._dropped_now = sum(count for _, count in gone)
        if not admit:
            self.monitor.missed += self._dropped_now
        return Decision(admit, gone, self.costs.predict_us(admit) if admit else 0.0)

    def report(self) -> dict[str, Any]:
        return {"policy": self.name, "sdmr": self.monitor.total, "costs": self.costs.report()}
