"""Backlog of a shared join: ranges of tuples that wait in the buffers, and the slice up to which each range has run.

A range is what arrived together. It is never split; eviction only shortens it at its old end. Ranges are numbered in
the order of arrival over all streams. Invariant: the level of a range only grows, and a range that is done, given up or
evicted is never returned again. Cost: finding the oldest unfinished range, or the oldest at a level, takes amortised
O(log n) at most; evicted ranges are removed in bulk; giving up is one pass over the older ranges of the stream.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_FORGET = 4096  # evicted ranges before their memory is freed


@dataclass(slots=True)
class Lane:
    """Buffer of one stream.

    `ids` and `ends` (the sequence number after the last tuple) are per range, oldest first, from `head` on.
    """

    buffer: int | None
    ids: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    head: int = 0
    first: int = 0  # sequence number of the oldest tuple in the buffer
    end: int = 0

    @property
    def free(self) -> float:
        """Tuples that can still arrive before one is evicted."""
        return float("inf") if self.buffer is None else self.buffer - (self.end - self.first)


class Backlog:
    """Ranges of all streams of one join."""

    def __init__(self, queries: int, buffers: Sequence[int | None]) -> None:
        self.queries = queries
        self.lanes = [Lane(buffer) for buffer in buffers]
        self._levels = array("i")
        self._at_us = array("d")
        self._streams = array("i")
        self._places = array("q")  # index within the lane's arrays, counted from the first range ever
        self._base = 0  # id of the first entry of the arrays above
        self._lane_base = [0] * len(self.lanes)
        self._oldest = 0
        self._at_level: list[list[int]] = [[] for _ in range(queries)]

    def arrived(self, stream: int, count: int, level: int = 0, at_us: float = 0.0) -> int:
        """Adds a range that arrived at `at_us`. Returns its id."""
        lane, id = self.lanes[stream], self._base + len(self._levels)
        lane.end += count
        self._places.append(self._lane_base[stream] + len(lane.ids))
        lane.ids.append(id)
        lane.ends.append(lane.end)
        self._levels.append(level)
        self._at_us.append(at_us)
        self._streams.append(stream)
        if level < self.queries:
            heappush(self._at_level[level], id)
        return id

    def evict(self, stream: int, count: int) -> list[tuple[int, int]]:
        """Removes the oldest `count` tuples of a stream. Returns (level, tuples) of those that were not done."""
        lane, lost = self.lanes[stream], []
        upto = min(lane.end, lane.first + count)
        while lane.first < upto:
            id, end = lane.ids[lane.head], lane.ends[lane.head]
            level, gone = self._levels[id - self._base], min(end, upto) - lane.first
            if level < self.queries:
                lost.append((level, gone))
            lane.first += gone
            if lane.first == end:
                self._levels[id - self._base] = self.queries  # never returned again
                lane.head += 1
        if lane.head >= _FORGET:
            self._forget(stream)
        return lost

    def done(self, stream: int) -> int:
        """Returns how many of a stream's oldest tuples have run all slices."""
        lane, place = self.lanes[stream], self.lanes[stream].head
        while place < len(lane.ids) and self._levels[lane.ids[place] - self._base] == self.queries:
            place += 1
        return lane.ends[place - 1] - lane.first if place > lane.head else 0

    def oldest(self) -> int | None:
        """Returns the oldest range that is not done."""
        index = max(self._oldest - self._base, 0)
        levels, done, size = self._levels, self.queries, len(self._levels)
        while index < size and levels[index] == done:
            index += 1
        self._oldest = self._base + index
        return self._oldest if index < size else None

    def oldest_at(self, level: int) -> int | None:
        """Returns the oldest range at a level."""
        heap, levels, base = self._at_level[level], self._levels, self._base
        while heap and (heap[0] < base or levels[heap[0] - base] != level):
            heappop(heap)
        return heap[0] if heap else None

    def raise_level(self, id: int, level: int) -> None:
        """Notes that a range has run the slices up to `level`."""
        self._levels[id - self._base] = level
        if level < self.queries:
            heappush(self._at_level[level], id)

    def give_up_before(self, id: int, level: int) -> list[tuple[int, int]]:
        """Gives up the older ranges of the same stream that have run no more than `level` slices.

        Returns (level, tuples) of each.
        """
        stream = self._streams[id - self._base]
        lane, place = self.lanes[stream], self._places[id - self._base] - self._lane_base[stream]
        ids = np.frombuffer(lane.ids, np.int64)[lane.head : place].copy()
        levels = np.frombuffer(self._levels, np.int32)[ids - self._base].copy()
        given_up = []
        for older in ids[levels <= level].tolist():
            given_up.append((self._levels[older - self._base], self.where(older)[2]))
            self._levels[older - self._base] = self.queries
        return given_up

    def unfinished(self) -> tuple[Ints, Ints, Ints, Floats]:
        """Returns ids, levels, tuples and arrival times of all ranges that are not done, oldest first; copies."""
        found = []
        for stream, lane in enumerate(self.lanes):
            ids, levels, ends = self.kept(stream)
            counts = np.diff(ends, prepend=lane.first)
            waits = levels < self.queries
            found.append((ids[waits], levels[waits], counts[waits]))
        ids, levels, counts = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(ids)
        ids = ids[order]
        at_us = np.frombuffer(self._at_us, np.float64)[ids - self._base] if len(ids) else np.empty(0, np.float64)
        return ids, levels[order], counts[order], at_us

    def level(self, id: int) -> int:
        """Returns the level of a range. An evicted range counts as done."""
        return self._levels[id - self._base] if id >= self._base else self.queries

    def where(self, id: int) -> tuple[int, int, int]:
        """Returns (stream, sequence number of the first tuple in the buffer, number of tuples)."""
        stream = self._streams[id - self._base]
        lane, index = self.lanes[stream], self._places[id - self._base] - self._lane_base[stream]
        first = lane.first if index == lane.head else lane.ends[index - 1]
        return stream, first, lane.ends[index] - first

    def kept(self, stream: int, upto: float = float("inf")) -> tuple[Ints, Ints, Ints]:
        """Returns ids, levels and ends of a stream's ranges with tuples before sequence number `upto`, oldest first;
        copies.
        """
        lane = self.lanes[stream]
        ends = np.frombuffer(lane.ends, np.int64)[lane.head :] if lane.ends else np.empty(0, np.int64)
        size = len(ends) if upto >= lane.end else int(np.searchsorted(ends, upto)) + 1
        if not size:
            return ends.copy(), ends.copy(), ends.copy()
        ids = np.frombuffer(lane.ids, np.int64)[lane.head : lane.head + size].copy()
        levels = np.frombuffer(self._levels, np.int32)[ids - self._base].astype(np.int64)
        return ids, levels, ends[:size].copy()

    def _forget(self, stream: int) -> None:
        """Frees the memory of evicted ranges."""
        lane = self.lanes[stream]
        self._lane_base[stream] += lane.head
        del lane.ids[: lane.head], lane.ends[: lane.head]
        lane.head = 0
        oldest = min((other.ids[other.head] for other in self.lanes if other.head < len(other.ids)), default=None)
        if oldest is not None and oldest > self._base:
            gone = oldest - self._base
            del self._levels[:gone], self._streams[:gone], self._places[:gone], self._at_us[:gone]
            self._base = oldest
