"""Basic Batch Manager: groups the tuples of one query that arrive in the same slot of length phi. They share a
deadline.

A basic batch has the deadline of its oldest tuple. Queues are in the order of arrival, which is also the order of
deadlines, since a query's deadline does not change. So the head of a queue is its most urgent batch. Cost: O(1) per
arrival, O(1) per batch taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class BasicBatch(NamedTuple):
    """Tuples of one query and one slot."""

    slot: float
    tuples: int
    deadline_us: float  # absolute deadline of its oldest tuple


class BasicBatchManager:
    """Queues of basic batches, one per task."""

    def __init__(self, tasks: int, phi_us: float) -> None:
        """Makes empty queues. `phi_us` 0: every arrival is a basic batch of its own (task at a time)."""
        if phi_us < 0:
            raise ValueError(
                f"phi_us must be 0 or more, got {phi_us}: write the length of a slot in microseconds, such as 100000"
            )
        self.phi_us = phi_us
        self._queues: list[deque[BasicBatch]] = [deque() for _ in range(tasks)]
        self._pending = [0] * tasks

    def add(self, task: int, count: int, arrival_us: float, deadline_us: float) -> bool:
        """Adds tuples to a queue. Returns whether the queue has a new head."""
        queue = self._queues[task]
        self._pending[task] += count
        phi = self.phi_us
        if not phi:
            was_empty = not queue
            queue.extend([BasicBatch(arrival_us, 1, deadline_us)] * count)
            return was_empty
        slot = arrival_us // phi
        if queue:
            tail = queue[-1]
            if tail.slot == slot:
                queue[-1] = BasicBatch(slot, tail.tuples + count, tail.deadline_us)
            else:
                queue.append(BasicBatch(slot, count, deadline_us))
            return False
        queue.append(BasicBatch(slot, count, deadline_us))
        return True

    def head_deadline_us(self, task: int) -> float | None:
        queue = self._queues[task]
        return queue[0].deadline_us if queue else None

    def queue(self, task: int) -> Iterable[BasicBatch]:
        """Returns the waiting batches of a task, oldest first."""
        return self._queues[task]

    def take(self, task: int, batches: int) -> list[BasicBatch]:
        """Takes the oldest `batches` basic batches, or as many as there are."""
        queue = self._queues[task]
        taken = [queue.popleft() for _ in range(min(batches, len(queue)))]
        self._pending[task] -= sum(batch.tuples for batch in taken)
        return taken

    def put_back(self, task: int, batches: list[BasicBatch]) -> None:
        """Puts batches that were taken back to the head of the queue."""
        self._queues[task].extendleft(reversed(batches))
        self._pending[task] += sum(batch.tuples for batch in batches)

    def evict(self, task: int, count: int) -> None:
        """Removes the oldest tuples, whatever batches they are in."""
        queue = self._queues[task]
        self._pending[task] -= count
        while count:
            head = queue.popleft()
            if head.tuples > count:
                queue.appendleft(head._replace(tuples=head.tuples - count))
            count -= min(count, head.tuples)

    def pending(self, task: int) -> int:
        return self._pending[task]

    def waiting(self, task: int) -> int:
        """Returns the number of basic batches, not tuples."""
        return len(self._queues[task])
