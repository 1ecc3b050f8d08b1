"""Reads a table: the whole file when the run first starts, from a copy under the checkpoint ever after.

The file may change while the app runs, and a replay must find the rows that were read first; so the driver keeps a copy
in `checkpoint/tables/NAME.arrow`, and executors read that. Every row has the earliest time that can be written as its
timestamp: a table is alive before the first tuple of any stream. Cost: the copy, and the rows in memory on the driver
and in each worker.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from kigen.connectors.source_base import InputError, Position, Range, Rows, Source
from kigen.durable.files import make_directories, replace
from kigen.lifetimes.expressions.bounded import FIRST_US
from kigen.plan.logical import SourceStream

_READ_ROWS = 1 << 20  # at once


class TableSource(Source):
    """A finite log: the rows of the table. A position is {"row": n}."""

    def __init__(self, stream: SourceStream, open_file: Callable[[], Source], checkpoint: str | None) -> None:
        self.stream, self._open_file = stream, open_file
        self._copy = None if checkpoint is None else Path(checkpoint) / "tables" / f"{stream.name}.arrow"
        self._table: pa.Table | None = None

    def initial(self) -> Position:
        self._rows()
        return {"row": 0}

    def advance(self, position: Position, max_rows: int) -> Range:
        start, total = int(position["row"]), self._rows().num_rows
        end = min(total, start + max(1, max_rows))
        return Range(
            self.stream.name, position, {"row": end}, rows=end - start, last_ts_us=FIRST_US, ended=end == total
        )

    def read(self, piece: Range) -> Rows:
        start, end = int(piece.start["row"]), int(piece.end["row"])
        part = self._rows().slice(start, end - start)
        times = pa.chunked_array([pa.array([FIRST_US], pa.int64()).take(pa.array([0] * part.num_rows, pa.int64()))])
        return Rows(part.append_column("_ts", times))

    def fraction(self, position: Position) -> float | None:
        total = self._rows().num_rows
        return int(position["row"]) / total if total else 1.0

    def _rows(self) -> pa.Table:
        if self._table is None:
            self._table = self._from_copy()
        if self._table is None:
            self._table = self._from_file()
            self._check_key(self._table)
            if self._copy is not None:
                make_directories(self._copy.parent)
                replace(self._copy, _packed(self._table), sync=True)
        return self._table

    def _from_copy(self) -> pa.Table | None:
        if self._copy is None or not self._copy.exists():
            return None
        with pa.memory_map(str(self._copy)) as file, pa.ipc.open_file(file) as reader:
            return reader.read_all()

    def _from_file(self) -> pa.Table:
        source = self._open_file()
        position, parts = source.initial(), list[pa.Table]()
        while True:
            piece = source.advance(position, _READ_ROWS)
            if piece.rows:
                parts.append(source.read(piece).table)
            if piece.ended or piece.end == position:
                break
            position = piece.end
        names = [f"c{i}" for i in range(len(self.stream.schema))]
        empty = pa.table([pa.array([], c.type.arrow) for c in self.stream.schema], names=names)
        return pa.concat_tables([empty, *parts]).combine_chunks()

    def _check_key(self, table: pa.Table) -> None:
        """Raises InputError if two rows have one key, or if a key is NULL."""
        if not self.stream.key:
            return
        columns = [f"c{i}" for i in self.stream.key]
        names = ", ".join(self.stream.schema[i].name for i in self.stream.key)
        if any(table.column(name).null_count for name in columns):
            raise InputError(f"table '{self.stream.name}': a row has NULL in its KEY ({names})")
        counts = table.group_by(columns).aggregate([([], "count_all")])
        twice = counts.filter(pa.compute.greater(counts.column("count_all"), 1))
        if twice.num_rows:
            found = ", ".join(str(twice.column(name)[0].as_py()) for name in columns)
            raise InputError(
                f"table '{self.stream.name}': {twice.column('count_all')[0]} rows have the KEY ({names}) = ({found}); "
                "remove all but one, or leave KEY out"
            )


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
