"""What the driver knows of rows that have come to a queue and have not been looked at yet: when each arrived, and which
are marks.

Rows come in blocks and are looked at in order, so what lies before the last look is dropped, but for one row (whether a
mark follows a tuple must be known). Invariant: memory is in the rows that have come and were not looked at, whatever
has come in all; a range that was dropped is not there any more (`kept_from` says from where on). Cost: a look costs
what it gives, and a constant.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

import numpy as np
import numpy.typing as npt

from kigen.connectors.source_base import Times
from kigen.lifetimes.exchange.sent import is_end, outputs_of_hole

Flags = npt.NDArray[np.bool_]
_NO_TIMES, _NO_FLAGS = np.zeros(0, np.int64), np.zeros(0, np.bool_)


class ArrivedRows:
    """Not thread-safe: whoever follows locks."""

    def __init__(self, first: int) -> None:
        self.kept_from = first  # offset of the first row kept
        self.known = first  # all up to the last mark
        self.total: int | None = None  # of a stream that has ended
        self._end = first
        self._blocks: deque[tuple[int, Times, Flags]] = deque()  # offset of the first row, arrivals, which are marks
        self._newest = 0
        self._marks_at: list[int] = []  # offsets behind marks of progress
        self._marks_us: list[int] = []

    def add(self, offset: int, arrived: Times, marks: Flags) -> None:
        """A block of rows; a mark's `_arrived` is its value. A gap before it: those rows were let go."""
        if not len(arrived):
            return
        times = np.maximum.accumulate(np.maximum(np.where(marks, 0, arrived), self._newest))
        self._newest = int(times[-1])
        places = np.flatnonzero(marks)
        for place in places.tolist():
            value = int(arrived[place])
            if is_end(value):
                self.total = offset + place + 1
            elif outputs_of_hole(value) is None:
                self._marks_at.append(offset + place + 1)
                self._marks_us.append(value)
        if offset > self._end:  # rows that were let go count as looked at
            self._blocks.clear()
            self.kept_from = offset
        self._blocks.append((offset, times, marks))
        self._end = offset + len(times)
        if len(places):
            self.known = offset + int(places[-1]) + 1

    def look(self, first: int, end: int) -> tuple[Times, Flags, bool]:
        """Arrivals and marks of these rows, and whether the row before them is known to be a tuple. What lies before is
        dropped."""
        self._drop_before(first - 1)
        before = False
        times, marks = [_NO_TIMES], [_NO_FLAGS]
        for offset, block, flags in self._blocks:
            if offset >= end:
                break
            if offset <= first - 1 < offset + len(block):
                before = not bool(flags[first - 1 - offset])
            begin, stop = max(0, first - offset), min(len(block), end - offset)
            if begin < stop:
                times.append(block[begin:stop])
                marks.append(flags[begin:stop])
        if len(times) == 2:
            return times[1], marks[1], before
        return np.concatenate(times), np.concatenate(marks), before

    def _drop_before(self, number: int) -> None:
        while self._blocks and self._blocks[0][0] + len(self._blocks[0][1]) <= number:
            offset, block, _ = self._blocks.popleft()
            self.kept_from = offset + len(block)

    def progress_before(self, number: int) -> int | None:
        """The progress that holds for whoever has all rows before this one."""
        at = bisect_right(self._marks_at, number)
        return self._marks_us[at - 1] if at else None

    def acknowledged(self, number: int) -> None:
        """Nobody goes back before this row: marks before it are needed no more, but for the last."""
        gone = bisect_right(self._marks_at, number) - 1
        if gone > 0:
            del self._marks_at[:gone], self._marks_us[:gone]

    @property
    def rows(self) -> int:
        """That are kept."""
        return sum(len(block) for _, block, _ in self._blocks)

    @property
    def marks(self) -> int:
        return len(self._marks_at)
