"""Reads a table: as a whole when the run first starts, from files under the checkpoint ever after.

What a table is read from may change while the app runs, and a replay must find the rows that were read first; so the
driver keeps every version (kigen.connectors.table.versions), and executors read those files. Rows of the first version
have the earliest time that can be written as their timestamp: a table is alive before the first tuple of any stream.
Later versions carry births and deaths, which take effect at the watermark of the task that reads them. Cost: the files,
and the rows in memory on the driver and in each worker.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from functools import cached_property

import pyarrow as pa

from kigen.connectors.requests import ReadTable
from kigen.connectors.source_base import Position, Range, Rows, Source
from kigen.connectors.table.keys import check_key
from kigen.connectors.table.versions import TableVersions
from kigen.lifetimes.expressions.bounded import FIRST_US
from kigen.plan.logical import SourceStream
from kigen.plan.types import arrow_schema

_READ_ROWS = 1 << 20  # at once


class TableSource(Source):
    """A log of the versions of a table. A position is {"index": number of the version}, or in checkpoints of older
    Kigen {"row": n} of the only version."""

    def __init__(self, stream: SourceStream, read: ReadTable | None, checkpoint: str | None, ends: bool) -> None:
        """`read` is None for a table that only the run itself can read. `ends`: there is one version."""
        self.stream, self._read_now, self._ends = stream, read, ends
        self._checkpoint = checkpoint

    @cached_property
    def _versions(self) -> TableVersions:
        folder = self._checkpoint
        if folder is None:
            folder = tempfile.mkdtemp(prefix="kigen-table-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return TableVersions(folder, self.stream.name, self.stream.schema)

    def initial(self) -> Position:
        """Reads the first version, unless an earlier process has."""
        if self._read_now is not None and not self._versions.base():
            rows, about = self._read_now()
            check_key(self.stream, rows)
            self._versions.write_first(rows, about)
        return {"index": 0}

    def advance(self, position: Position, max_rows: int) -> Range:
        if "row" in position:
            total = self._versions.whole(1).rows.num_rows
            left = total - int(position["row"])
            return Range(self.stream.name, position, {"row": total}, rows=left, last_ts_us=FIRST_US, ended=True)
        first = int(position["index"])
        last = first + 1 if first and self._versions.has(first + 1) else first or self._versions.base()
        rows = 0
        if last > first:
            rows = (self._versions.changes(last) if first else self._versions.whole(last).rows).num_rows
        ended = self._ends and last > 0
        return Range(self.stream.name, position, {"index": last}, rows=rows, last_ts_us=FIRST_US, ended=ended)

    def read(self, piece: Range) -> Rows:
        if "row" in piece.start:
            start, end = int(piece.start["row"]), int(piece.end["row"])
            return Rows(_at_first(self._versions.whole(1).rows.slice(start, end - start), self.stream))
        first, last = int(piece.start["index"]), int(piece.end["index"])
        if first == last:
            return Rows(_at_first(arrow_schema(self.stream.schema).empty_table(), self.stream))
        rows = self._versions.rows_between(first, last)
        return Rows(_at_first(rows, self.stream, numbered=self.stream.changes))

    def fraction(self, position: Position) -> float | None:
        return 1.0 if "row" in position or position["index"] else 0.0


def _at_first(rows: pa.Table, stream: SourceStream, numbered: bool = False) -> pa.Table:
    times = pa.array([FIRST_US], pa.int64()).take(pa.array([0] * rows.num_rows, pa.int64()))
    kept = rows if numbered else rows.select([f"c{i}" for i in range(len(stream.schema))])
    return kept.append_column("_ts", times)


def read_all(source: Source, stream: SourceStream) -> pa.Table:
    """Reads a finite log from its beginning to its end, as the rows of a table."""
    position, parts = source.initial(), list[pa.Table]()
    while True:
        piece = source.advance(position, _READ_ROWS)
        if piece.rows is None or piece.rows:
            parts.append(source.read(piece).table)
        if piece.ended or piece.end == position:
            break
        position = piece.end
    schema = arrow_schema(stream.schema)
    return pa.concat_tables([schema.empty_table(), *(part.select(schema.names) for part in parts)]).combine_chunks()
