"""Scheduler: the paper's family of policies, TAAT, BTS, BTS1, ATS and ATS1, built from its parts.

One decision is one scheduling batch: k basic batches of the query whose head is the most urgent. TAAT: a basic batch is
one tuple and k = 1. BTS: k is fixed. ATS: the adaptivity controller sets k. The "1" adds S(Q) to the overdue
controller. Beyond the paper, it also looks at the next query: a long batch is cut before it makes the next head late,
unless so much is missed that it would not help. Cost per decision: O(log tasks + k), however much waits. A query with
only overdue tuples loses them, and the search continues with the next query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kigen.schedule.adaptive.adaptivity_controller import AdaptivityController
from kigen.schedule.adaptive.basic_batch_manager import BasicBatch, BasicBatchManager
from kigen.schedule.adaptive.basic_task_collector import BasicTaskCollector
from kigen.schedule.adaptive.overdue_controller import OverdueController
from kigen.schedule.adaptive.priority_manager import PriorityManager
from kigen.schedule.adaptive.sdmr_monitor import SdmrMonitor
from kigen.schedule.cost_model import CostModel
from kigen.schedule.policy_interface import Completion, Decision, Floats, Grant, Policy, ScheduledTask

WELL_SPENT = 6.0  # a batch with this many fixed costs of work is never too long
LOST = 0.25  # if more than this share is missed, cutting batches does not help


class BatchScheduler(Policy):
    """A policy of the paper."""

    def __init__(
        self,
        name: str,
        tasks: Sequence[ScheduledTask],
        costs: CostModel,
        *,
        phi_us: float,
        k: int = 1,
        predictive: bool = False,
        controller: AdaptivityController | None = None,
        monitor: SdmrMonitor | None = None,
        rule: str = "edf",
    ) -> None:
        super().__init__(tasks)
        self.name = name
        self.monitor = monitor or SdmrMonitor()
        self.controller = controller
        self.costs = costs
        self._k, self._predictive = k, predictive
        self._collector = BasicTaskCollector(tasks)
        self._batches = BasicBatchManager(len(self.tasks), phi_us)
        self._priorities = PriorityManager(self.tasks, rule)
        self._overdue = OverdueController(self.tasks, costs if predictive else None)
        self._dropped_now = 0

    @property
    def k(self) -> int:
        return self.controller.k if self.controller else self._k

    def arrived(self, task: int, count: int, arrival_us: float) -> None:
        self.monitor.born += count
        deadline_us = self._collector.deadline_us(task, arrival_us)
        if self._batches.add(task, count, arrival_us, deadline_us):
            self._priorities.enter(task, deadline_us)

    def evict(self, task: int, count: int) -> None:
        """Removes evicted tuples. The heap keeps the old head's deadline, so the task is looked at no later than
        necessary.
        """
        self.monitor.missed += count
        self._batches.evict(task, count)

    def next(self, now_us: float) -> Decision:
        dropped: list[Grant] = []
        self._dropped_now = 0
        k = self.k
        while (task := self._priorities.most_urgent()) is not None:
            taken = self._batches.take(task, k)
            if self._predictive and len(taken) > 1 and self.monitor.window < LOST:
                self._spare_the_next(task, taken, now_us)
            head = self._batches.head_deadline_us(task)
            if head is not None:
                self._priorities.enter(task, head)
            gone, kept = self._overdue.split(task, taken, now_us)
            if gone:
                dropped.append((task, gone))
                self._dropped_now += gone
            if kept:
                admit = [(task, kept)]
                return Decision(admit, dropped, self.costs.predict_us(admit) if self._predictive else 0.0, k)
        if self._dropped_now:
            self.monitor.executed(now_us, self._dropped_now, self._dropped_now, self._dropped_now)
        return Decision([], dropped, 0.0, k)

    def _spare_the_next(self, task: int, taken: list[BasicBatch], now_us: float) -> None:
        """Puts back batches that would make the next query's head late, as long as the fixed cost stays well spent."""
        next_us = self._priorities.next_deadline_us()
        if next_us is None:
            return
        fixed_us, tuple_us = self.costs.fixed_us, float(self.costs.costs_us[task])
        allowed_us = max(WELL_SPENT * fixed_us, next_us - now_us - 2 * fixed_us)
        spent_us = 0.0
        for kept, batch in enumerate(taken):
            spent_us += batch.tuples * tuple_us
            if kept and spent_us > allowed_us:
                self._batches.put_back(task, taken[kept:])
                del taken[kept:]
                return

    def completed(self, done: Completion) -> None:
        decided = self._dropped_now
        for _, count in done.admitted:
            decided += count
        self.monitor.executed(done.finished_us, decided, done.missed + self._dropped_now, self._dropped_now)
        self.costs.observe(done.admitted, done.elapsed_us, done.task_elapsed_us)
        if self.controller is not None:
            self.controller.update()

    def outlook(self, now_us: float, shortest_us: float = 0.0) -> tuple[Floats, Floats]:
        due_us, work_us = [], []
        for task, asked in enumerate(self.tasks):
            if asked.deadline_us is None or asked.deadline_us < shortest_us:
                continue
            each_us = (self.costs.fixed_us + float(self.costs.tasks_us[task])) / self.k
            for batch in self._batches.queue(task):
                due_us.append(batch.deadline_us)
                work_us.append(each_us + batch.tuples * float(self.costs.costs_us[task]))
        order = np.argsort(np.array(due_us), kind="stable")
        return np.array(due_us)[order], now_us + np.cumsum(np.array(work_us)[order])

    def pending(self, task: int) -> int:
        return self._batches.pending(task)

    def report(self) -> dict[str, Any]:
        return {"policy": self.name, "k": self.k, "sdmr": self.monitor.total, "costs": self.costs.report()}
