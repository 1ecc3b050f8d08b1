"""Priority Manager: which query's head is the most urgent. EDF by deadline, or MUF, where slack counts relative to the
query's deadline. FIFO is EDF where every deadline is the arrival itself: whoever makes the tasks sees to that.

Invariant: a task with a non-empty queue has exactly one entry in the heap: that of its head. Cost: O(log tasks) a
change of head, however long the queues are.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from kigen.schedule.policy_interface import ScheduledTask

RULES = ("edf", "muf", "fifo")


class PriorityManager:
    def __init__(self, tasks: Sequence[ScheduledTask], rule: str = "edf") -> None:
        if rule not in RULES:
            raise ValueError(f"no priority rule '{rule}': write one of {', '.join(RULES)}")
        # Maximum urgency first: the critical come first (FIRM before soft), the earliest deadline among them.
        self._class = [1 if rule == "muf" and not task.firm else 0 for task in tasks]
        self._heap: list[tuple[int, float, int]] = []

    def enter(self, task: int, deadline_us: float) -> None:
        """The task's queue has this head now."""
        heapq.heappush(self._heap, (self._class[task], deadline_us, task))

    def most_urgent(self) -> int | None:
        """Takes the entry out: the caller enters the task's next head, if there is one."""
        return heapq.heappop(self._heap)[2] if self._heap else None

    def next_deadline_us(self) -> float | None:
        """Of the most urgent head, which stays where it is."""
        return self._heap[0][1] if self._heap else None

    def __len__(self) -> int:
        return len(self._heap)
