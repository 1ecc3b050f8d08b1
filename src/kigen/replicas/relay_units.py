"""What a relay takes over of the rows that come, and which of them it may acknowledge by hand. Pure: no connection, no
thread, no clock.

Rows are taken over in whole steps, up to a mark. Rows that the node before has let go leave a gap in the numbers; a row
(`hole`) stands for them. Invariant: a unit begins where the one before it ended, or with the row that stands for what
lies between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

Marks = Callable[[pa.RecordBatch], list[int]]  # places of marks
Hole = Callable[[str], pa.RecordBatch]  # the row that stands for rows let go, by the note of the ack that let them go
_REMEMBERED = 100_000  # marks


@dataclass(frozen=True)
class Unit:
    """To be appended at once. `complete`: nothing that came waits for its mark, so progress told with it holds behind
    it."""

    batches: list[pa.RecordBatch]
    first: int  # there
    complete: bool

    @property
    def rows(self) -> int:
        return _rows(self.batches)

    @property
    def end(self) -> int:
        return self.first + self.rows


def _rows(batches: Sequence[pa.RecordBatch]) -> int:
    count: int = sum(b.num_rows for b in batches)
    return count


def reached(number: int, skipping: bool) -> int:
    """The offset there behind what is here, by the next number of the relay as a producer here: it numbers rows as they
    are there or, where rows are skipped, units by where they end."""
    return max(number - 1, 0) if skipping else number


class Steps:
    """Of one connection: what came after the last mark is forgotten with it, and asked for again."""

    def __init__(self, there: int, marks: Marks | None = None, hole: Hole | None = None) -> None:
        """`there`: the offset that is asked for. Without `marks`, a step is what comes at once."""
        self._first, self._waiting = there, list[pa.RecordBatch]()
        self._marks, self._hole = marks, hole

    @property
    def next(self) -> int:
        """The offset behind all that came."""
        return self._first + _rows(self._waiting)

    def came(self, first: int, note: str, batches: Sequence[pa.RecordBatch]) -> Unit:
        if first > self.next:
            self._waiting = [self._hole(note)] if self._hole is not None else []
            self._first = first - len(self._waiting)
        ready, self._waiting = self._whole([*self._waiting, *batches])
        unit = Unit(ready, self._first, not self._waiting)
        self._first = unit.end
        return unit

    def _whole(self, batches: list[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
        """Up to the last mark, and what follows it."""
        if self._marks is None:
            return batches, []
        for i in range(len(batches) - 1, -1, -1):
            place = max(self._marks(batches[i]), default=None)
            if place is not None:
                rest = [batches[i].slice(place + 1)] if place + 1 < batches[i].num_rows else []
                return [*batches[:i], batches[i].slice(0, place + 1)], rest + batches[i + 1 :]
        return [], batches


class HandAcks:
    """Which offset there may be acknowledged when the work here has come to some offset: the last mark before it."""

    def __init__(self, marks: Marks | None = None) -> None:
        self._marks, self._known = (
            marks,
            deque[tuple[int, int]](maxlen=_REMEMBERED),
        )  # behind a mark: offset here, offset there
        self.last = (0, "")  # to be told again to whoever was not there

    def appended(self, unit: Unit, here: int) -> None:
        """`here`: the offset behind the unit in the queue here."""
        self._known.extend((here - rest, unit.end - rest) for rest in self._behind(unit))

    def done(self, here: int, note: str) -> bool:
        """Whether there is a mark that was not acknowledged before."""
        there = None
        while self._known and self._known[0][0] <= here:
            there = self._known.popleft()[1]
        if there is None:
            return False
        self.last = (there, note)
        return True

    def _behind(self, unit: Unit) -> list[int]:
        """Of each mark, how many rows follow it; without marks, every unit ends at one."""
        if self._marks is None:
            return [0]
        left, found = unit.rows, list[int]()
        for batch in unit.batches:
            found += [left - place - 1 for place in self._marks(batch)]
            left -= batch.num_rows
        return found
