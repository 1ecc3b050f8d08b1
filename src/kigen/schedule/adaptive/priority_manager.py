"""Priority Manager: finds the query whose head is the most urgent.

The rule is EDF (by deadline) or MUF (FIRM queries first, by deadline among them). FIFO is EDF with the arrival as
deadline; the maker of the tasks sets the deadlines. Invariant: a task with a non-empty queue has exactly one entry
in the heap, for its head. Cost: O(log tasks) per change of a head, however long the queues are.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from kigen.schedule.policy_interface import ScheduledTask

RULES = ("edf", "muf", "fifo")


class PriorityManager:
    """Heap of the heads of all queues."""

    def __init__(self, tasks: Sequence[ScheduledTask], rule: str = "edf") -> None:
        if rule not in RULES:
            raise ValueError(f"there is no priority rule '{rule}': write one of {', '.join(RULES)}")
        # MUF, maximum urgency first: FIRM tasks come before soft ones, then the earliest deadline.
        self._class = [1 if rule == "muf" and not task.firm else 0 for task in tasks]
        self._heap: list[tuple[int, float, int]] = []

    def enter(self, task: int, deadline_us: float) -> None:
        """Notes the new head of a task's queue."""
        heapq.heappush(self._heap, (self._class[task], deadline_us, task))

    def most_urgent(self) -> int | None:
        """Removes and returns the most urgent task. The caller enters the task's next head, if there is one."""
        return heapq.heappop(self._heap)[2] if self._heap else None

    def next_deadline_us(self) -> float | None:
        """Returns the deadline of the most urgent head without removing it."""
        return self._heap[0][1] if self._heap else None

    def __len__(self) -> int:
        return len(self._heap)
