"""Index of the rows that have arrived in a queue and were not polled yet: arrival times, and which are watermark rows.

Rows arrive in blocks and are polled in order. So everything before the last poll is forgotten, except one row: whether
a watermark row follows a tuple must be known. Invariant: memory grows with the rows that have arrived and were not
polled, not with all rows. Forgotten ranges are not available (`kept_from` is the first offset that is). Cost: a poll
takes time in proportion to its result, plus a constant.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

import numpy as np
import numpy.typing as npt

from kigen.connectors.source_base import Times
from kigen.lifetimes.exchange.sent import is_end, outputs_of_gap

Flags = npt.NDArray[np.bool_]
_NO_TIMES, _NO_FLAGS = np.zeros(0, np.int64), np.zeros(0, np.bool_)


class ArrivedRows:
    """Arrival times and watermarks of rows. Not thread-safe: the caller holds a lock."""

    def __init__(self, first: int) -> None:
        self.kept_from = first  # offset of the first row kept
        self.known = first  # end of the rows that may be admitted: the last watermark row
        self.total: int | None = None  # number of rows, if the stream has ended
        self._end = first
        self._blocks: deque[tuple[int, Times, Flags]] = (
            deque()
        )  # offset of the first row, arrivals, which are watermark rows
        self._newest = 0
        self._watermark_ends: list[int] = []  # offset after each watermark row
        self._watermarks_us: list[int] = []

    def add(self, offset: int, arrived: Times, watermarks: Flags) -> None:
        """Adds a block of rows. A watermark row has its value in `_arrived`.

        Offsets that are missing before the block belong to rows that were trimmed.
        """
        if not len(arrived):
            return
        times = np.maximum.accumulate(np.maximum(np.where(watermarks, 0, arrived), self._newest))
        self._newest = int(times[-1])
        places = np.flatnonzero(watermarks)
        for place in places.tolist():
            value = int(arrived[place])
            if is_end(value):
                self.total = offset + place + 1
            elif outputs_of_gap(value) is None:
                self._watermark_ends.append(offset + place + 1)
                self._watermarks_us.append(value)
        if offset > self._end:  # rows that were trimmed count as polled
            self._blocks.clear()
            self.kept_from = offset
        self._blocks.append((offset, times, watermarks))
        self._end = offset + len(times)
        if len(places):
            self.known = offset + int(places[-1]) + 1

    def poll(self, first: int, end: int) -> tuple[Times, Flags, bool]:
        """Returns arrivals and watermark flags of these rows, and whether the row before them is known to be a tuple.

        Forgets the rows before.
        """
        self._forget_before(first - 1)
        before = False
        times, watermarks = [_NO_TIMES], [_NO_FLAGS]
        for offset, block, flags in self._blocks:
            if offset >= end:
                break
            if offset <= first - 1 < offset + len(block):
                before = not bool(flags[first - 1 - offset])
            begin, stop = max(0, first - offset), min(len(block), end - offset)
            if begin < stop:
                times.append(block[begin:stop])
                watermarks.append(flags[begin:stop])
        if len(times) == 2:
            return times[1], watermarks[1], before
        return np.concatenate(times), np.concatenate(watermarks), before

    def _forget_before(self, number: int) -> None:
        while self._blocks and self._blocks[0][0] + len(self._blocks[0][1]) <= number:
            offset, block, _ = self._blocks.popleft()
            self.kept_from = offset + len(block)

    def progress_before(self, number: int) -> int | None:
        """Returns the watermark for a reader that has all rows before this offset."""
        at = bisect_right(self._watermark_ends, number)
        return self._watermarks_us[at - 1] if at else None

    def acknowledged(self, number: int) -> None:
        """Forgets the watermarks before an acknowledged offset, except the last: no reader goes back before it."""
        gone = bisect_right(self._watermark_ends, number) - 1
        if gone > 0:
            del self._watermark_ends[:gone], self._watermarks_us[:gone]

    @property
    def rows(self) -> int:
        """Returns how many rows are kept."""
        return sum(len(block) for _, block, _ in self._blocks)

    @property
    def watermarks(self) -> int:
        return len(self._watermark_ends)
