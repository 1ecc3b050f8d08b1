"""Remembers at which time each of many things needs attention, so that a round asks only those whose time has come.

Cost: O(log n) per change, O(1) for a look that finds nothing due.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush


class WakeTimes:
    """Times of things that are known by their index. Each has at most one time."""

    def __init__(self) -> None:
        self._at_us: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []  # also holds times that have been changed since

    def set(self, index: int, at_us: int) -> None:
        if self._at_us.get(index) != at_us:
            self._at_us[index] = at_us
            heappush(self._heap, (at_us, index))
            if len(self._heap) > 64 + 4 * len(self._at_us):  # mostly times that no longer hold
                self._heap = [(at, i) for i, at in self._at_us.items()]
                heapify(self._heap)

    def clear(self, index: int) -> None:
        self._at_us.pop(index, None)

    def take_due(self, now_us: int) -> list[int]:
        """Removes the things whose time has come, and returns them in the order of their times."""
        due = []
        while (at_us := self.earliest_us()) is not None and at_us <= now_us:
            index = heappop(self._heap)[1]
            del self._at_us[index]
            due.append(index)
        return due

    def earliest_us(self) -> int | None:
        """Returns the earliest time; None if no thing has one."""
        heap = self._heap
        while heap and self._at_us.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None
