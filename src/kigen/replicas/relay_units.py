"""Cuts the rows that a relay receives into units, and says which offsets it may acknowledge. Pure.

A relay takes rows over in whole steps, up to a watermark row. Rows that the upstream queue has trimmed leave a gap in
the offsets; one gap row stands for them. Invariant: a unit begins where the one before it ended, or with the gap row
that stands for what lies between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from kigen.replicas.standby_kind import Acks, StandbyKind

FindWatermarks = Callable[[pa.RecordBatch], list[int]]  # the indexes of the watermark rows in a batch
MakeGapRow = Callable[[str], pa.RecordBatch]  # the row for trimmed rows, by the note of the ack that trimmed them
_REMEMBERED = 100_000  # watermark rows


@dataclass(frozen=True)
class Unit:
    """Rows to append at once. `complete`: no received row waits for its watermark, so the progress that came with the
    rows holds behind the unit."""

    batches: list[pa.RecordBatch]
    first: int  # offset in the upstream queue
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


def upstream_position(sequence: int, skips_trimmed: bool) -> int:
    """Returns the offset in the upstream queue behind what this node's queue holds.

    `sequence` is the next sequence number of the relay as a producer of this node's queue. The relay numbers rows by
    their upstream offsets or, where it skips trimmed rows, units by where they end.
    """
    return max(sequence - 1, 0) if skips_trimmed else sequence


class RelayUnits:
    """Units of one connection. Rows after the last watermark are forgotten with the connection, and requested again."""

    def __init__(
        self, position: int, find_watermarks: FindWatermarks | None = None, make_gap_row: MakeGapRow | None = None
    ) -> None:
        """`position`: the upstream offset that is requested. Without `find_watermarks`, all rows that arrive together
        are a step."""
        self._first, self._waiting = position, list[pa.RecordBatch]()
        self._find_watermarks, self._make_gap_row = find_watermarks, make_gap_row

    @property
    def next(self) -> int:
        """Returns the upstream offset behind all received rows."""
        return self._first + _rows(self._waiting)

    @property
    def waits(self) -> bool:
        """Whether received rows wait for their watermark."""
        return bool(self._waiting)

    def received(self, first: int, note: str, batches: Sequence[pa.RecordBatch]) -> Unit:
        if first > self.next:
            self._waiting = [self._make_gap_row(note)] if self._make_gap_row is not None else []
            self._first = first - len(self._waiting)
        ready, self._waiting = self._whole_steps([*self._waiting, *batches])
        unit = Unit(ready, self._first, not self._waiting)
        self._first = unit.end
        return unit

    def _whole_steps(self, batches: list[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
        """Cuts behind the last watermark row."""
        if self._find_watermarks is None:
            return batches, []
        for i in range(len(batches) - 1, -1, -1):
            index = max(self._find_watermarks(batches[i]), default=None)
            if index is not None:
                rest = [batches[i].slice(index + 1)] if index + 1 < batches[i].num_rows else []
                return [*batches[:i], batches[i].slice(0, index + 1)], rest + batches[i + 1 :]
        return [], batches


class DeliveredAcks:
    """Finds the upstream offset to acknowledge when the work here has come to some offset: behind the last watermark
    row before it."""

    def __init__(self, find_watermarks: FindWatermarks | None = None) -> None:
        self._find_watermarks = find_watermarks
        # behind each watermark row: the offset in this node's queue, and the offset in the upstream queue
        self._known = deque[tuple[int, int]](maxlen=_REMEMBERED)
        self.last = (0, "")  # offset and note; sent again on every new connection

    def appended(self, unit: Unit, end: int) -> None:
        """`end`: the offset behind the unit in this node's queue."""
        self._known.extend((end - rest, unit.end - rest) for rest in self._rows_behind_watermarks(unit))

    def worked_off(self, offset: int, note: str) -> bool:
        """Moves `last` to the last watermark row up to `offset` of this node's queue; returns whether it moved."""
        upstream = None
        while self._known and self._known[0][0] <= offset:
            upstream = self._known.popleft()[1]
        if upstream is None:
            return False
        self.last = (upstream, note)
        return True

    def _rows_behind_watermarks(self, unit: Unit) -> list[int]:
        """Counts the rows behind each watermark row; without `find_watermarks`, every unit ends at one."""
        if self._find_watermarks is None:
            return [0]
        left, found = unit.rows, list[int]()
        for batch in unit.batches:
            found += [left - index - 1 for index in self._find_watermarks(batch)]
            left -= batch.num_rows
        return found


def ack_for_others(kind: StandbyKind, leads: bool, appended: int, delivered: tuple[int, str]) -> tuple[int, str] | None:
    """Returns the offset and the note that a relay acknowledges to the servers that it does not follow, so that they
    need not keep the rows either; None: nothing.

    `appended`: the upstream offset behind this node's queue. `delivered`: `DeliveredAcks.last`.
    """
    if kind.acks is Acks.APPENDED:
        return appended, ""
    return delivered if kind.acks is Acks.DELIVERED and leads else None
