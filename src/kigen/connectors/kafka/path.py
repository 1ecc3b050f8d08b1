"""Keeps the way of a reader through the partitions of a topic: which offsets of the partitions an index stands for.

An index counts the offsets of all partitions together. Each look at the topic extends the way to the ends found then.
Between two looks all partitions advance together, in proportion, in pieces of at most `PIECE` offsets. Invariant: a
larger index never has a smaller offset in any partition, and an index stands for the same offsets as long as it is not
forgotten. A partition that is not known yet begins at offset 0. Cost: a row of numbers per look with something new.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

PIECE = 500
Ints = npt.NDArray[np.int64]


class Path:
    """The way through one topic, or several. Partitions are named `topic/number`."""

    def __init__(self, marks: Mapping[int, Mapping[str, int]], now_us: int) -> None:
        """`marks` has the partition offsets of some indexes: the cursors of tasks, or the start."""
        self.names: list[str] = []
        self._places: dict[str, int] = {}
        self._index: list[int] = []
        self._offsets: list[Ints] = []
        self._seen_us: list[int] = []
        for index in sorted(marks):
            self._add(index, marks[index], now_us)

    @property
    def known(self) -> int:
        """The index of the ends found last."""
        return self._index[-1]

    def ends(self) -> dict[str, int]:
        return self._named(self._offsets[-1])

    def extend(self, ends: Mapping[str, int], now_us: int) -> list[str]:
        """Goes on to these ends. Returns the partitions with something new, and those that are new. An end that lies
        before the one known is ignored: the caller decides what it means."""
        last = self.ends()
        grown = [name for name, end in ends.items() if name not in last or end > last[name]]
        if grown:
            more = sum(ends[name] - last.get(name, 0) for name in grown)
            self._add(self.known + more, last | {name: ends[name] for name in grown}, now_us)
        return grown

    def offsets(self, index: int) -> dict[str, int]:
        """Returns the partition offsets at which a reader continues that has read `index` offsets."""
        at = bisect_right(self._index, index) - 1
        assert index <= self.known, f"index {index} is not on the way, which reaches {self.known}"
        here = self._offsets[at]
        if self._index[at] == index:
            return self._named(here)
        after = self._offsets[at + 1]
        padded = np.concatenate([here, np.zeros(len(after) - len(here), np.int64)])
        return self._named(_between(padded, after, index - self._index[at]))

    def arrivals_us(self, first: int, end: int) -> Ints:
        """Returns when each offset first..end-1 was seen."""
        looks = np.searchsorted(np.asarray(self._index), np.arange(first, end), side="right")
        return np.asarray(self._seen_us, np.int64)[looks]

    def forget_before(self, index: int) -> None:
        at = bisect_right(self._index, index) - 1
        if at > 0:
            del self._index[:at], self._offsets[:at], self._seen_us[:at]

    def _add(self, index: int, offsets: Mapping[str, int], now_us: int) -> None:
        for name in offsets:
            if name not in self._places:
                self._places[name] = len(self.names)
                self.names.append(name)
        row = np.zeros(len(self.names), np.int64)
        for name, offset in offsets.items():
            row[self._places[name]] = offset
        if self._index and self._index[-1] == index:  # new partitions without messages: the same place
            self._offsets[-1], self._seen_us[-1] = row, now_us
            return
        self._index.append(index)
        self._offsets.append(row)
        self._seen_us.append(now_us)

    def _named(self, row: Ints) -> dict[str, int]:
        return dict(zip(self.names, row.tolist(), strict=False))


def between(start: Mapping[str, int], end: Mapping[str, int], count: int) -> dict[str, int]:
    """Returns the partition offsets `count` offsets after `start`, on the way to `end`."""
    before = np.array([start.get(name, 0) for name in end], np.int64)
    return dict(zip(end, _between(before, np.array(list(end.values()), np.int64), count).tolist(), strict=True))


def _between(before: Ints, after: Ints, count: int) -> Ints:
    distance = after - before
    pieces = max(1, -(-int(distance.max(initial=0)) // PIECE))

    def whole(piece: int) -> Ints:
        return distance * piece // pieces

    low, high = 0, pieces  # the last piece that begins at or before `count`
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if int(whole(middle).sum()) <= count else (low, middle - 1)
    gone = whole(low)
    left = count - int(gone.sum())
    if left:
        room = whole(low + 1) - gone
        before_each = np.cumsum(room) - room
        gone = gone + np.clip(left - before_each, 0, room)
    return before + gone
