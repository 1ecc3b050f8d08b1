"""Queues of tasks by slots of time: how many tuples of each task wait, and when they fall due.

All tuples of a task have the same deadline, so a task's queue in the order of arrival is also in the order of
deadlines. A queue holds (due, count) pairs; tuples of one slot share the due time of the oldest. A slot is a fiftieth
of the task's own deadline, at most `phi_us`: queues of deadlines of 0.1 s and of 30 s have equally many slots, and
nothing limits how far ahead they look.

Invariant: `pending`, `heads_us` and `tails_us` (due times of the oldest and of the newest slot) agree with the queues.
Cost: O(1) per slot that arrives or leaves; questions about all tasks are vector operations over tasks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from kigen.schedule.policy_interface import Floats, Ints

_FINEST = 50.0  # slots per deadline
_FEW = 64  # arrivals that are faster to add one by one


class TaskQueues:
    """Queues of all tasks, whose deadlines are finite."""

    def __init__(self, deadlines_us: Sequence[float], phi_us: float) -> None:
        self.deadlines_us = np.maximum(np.array(deadlines_us, np.float64), 1.0)
        self.slots_us = np.minimum(self.deadlines_us / _FINEST, phi_us)
        self._queues: list[deque[list[float]]] = [deque() for _ in deadlines_us]  # [due, count, slot], oldest first
        self._deadlines, self._lengths = self.deadlines_us.tolist(), self.slots_us.tolist()
        self.pending = np.zeros(len(self._queues))
        self.heads_us = np.full(len(self._queues), math.inf)
        self.tails_us = np.full(len(self._queues), math.inf)

    def add(self, task: int, count: float, arrival_us: float) -> None:
        """Adds tuples at the end of a queue."""
        queue, slot = self._queues[task], arrival_us // self._lengths[task]
        self.pending[task] += count
        if queue and queue[-1][2] >= slot:
            queue[-1][1] += count
            return
        due_us = arrival_us + self._deadlines[task]
        if not queue:
            self.heads_us[task] = due_us
        self.tails_us[task] = due_us
        queue.append([due_us, count, slot])

    def add_many(self, tasks: Ints, counts: Ints, arrivals_us: Floats) -> None:
        """Adds tuples of many tasks, in the order of arrival of each."""
        if len(tasks) > _FEW:
            slots = (arrivals_us // self.slots_us[tasks]).astype(np.int64)
            order = np.lexsort((arrivals_us, slots, tasks))
            tasks, slots = tasks[order], slots[order]
            first = np.flatnonzero(np.append(True, (np.diff(tasks) != 0) | (np.diff(slots) != 0)))
            counts = np.add.reduceat(counts[order], first)
            tasks, arrivals_us = tasks[first], arrivals_us[order][first]
        for task, count, arrival_us in zip(tasks.tolist(), counts.tolist(), arrivals_us.tolist(), strict=True):
            self.add(task, count, arrival_us)

    def take(self, task: int, count: float) -> float:
        """Removes the oldest `count` tuples, or as many as there are. Returns how many."""
        queue, left = self._queues[task], min(count, float(self.pending[task]))
        taken = left
        if taken == self.pending[task]:
            queue.clear()
            left = 0.0
        while left > 0:
            head = queue[0]
            if head[1] > left:
                head[1] -= left
                break
            left -= head[1]
            queue.popleft()
        self._removed(task, taken)
        return taken

    def take_all(self) -> dict[int, int]:
        """Removes everything. Returns the tuples per task."""
        found = np.flatnonzero(self.pending)
        taken = dict(zip(found.tolist(), self.pending[found].astype(np.int64).tolist(), strict=True))
        for task in taken:
            self._queues[task].clear()
        self.pending[found] = 0.0
        self.heads_us[found] = self.tails_us[found] = math.inf
        return taken

    def take_before(self, task: int, before_us: float) -> float:
        """Removes the tuples that are due before then. Returns how many."""
        queue, taken = self._queues[task], 0.0
        while queue and queue[0][0] < before_us:
            taken += queue.popleft()[1]
        if taken:
            self._removed(task, taken)
        return taken

    def due_before(self, task: int, before_us: float) -> float:
        """Returns how many tuples are due before then."""
        found = 0.0
        for due_us, count, _ in self._queues[task]:
            if due_us >= before_us:
                break
            found += count
        return found

    def head_arrival_us(self, task: int) -> float:
        """Returns when the oldest tuple arrived."""
        return self._queues[task][0][0] - float(self.deadlines_us[task])

    def head_count(self, task: int) -> float:
        """Returns how many tuples the oldest slot holds."""
        return self._queues[task][0][1]

    def _removed(self, task: int, count: float) -> None:
        queue = self._queues[task]
        self.pending[task] -= count
        if queue:
            self.heads_us[task] = queue[0][0]
        else:
            self.pending[task] = 0.0
            self.heads_us[task] = self.tails_us[task] = math.inf
