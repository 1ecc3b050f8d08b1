"""Writes `INTO parquet (path = ...)`: a directory of part-00000.parquet, part-00001.parquet, ...

Invariant: a part appears complete, by a rename, and its number gives its place in the order. Small results wait in
memory until `commit` makes them a part; large results arrive as finished parts, which are renamed.
"""

from __future__ import annotations

import os
import re

import pyarrow as pa
import pyarrow.parquet as pq

from kigen.connectors.encoding import Encoder, Encoding, output_columns, times_of
from kigen.connectors.parquet.waiting_rows import WaitingRows
from kigen.connectors.sink_base import Sink, SinkPosition
from kigen.connectors.source_base import InputError
from kigen.durable import WrittenFile, make_directories, move, remove, sync_directory
from kigen.plan.types import Schema

PART = re.compile(r"part-([0-9]{5,})\.parquet")
TEMPORARY = re.compile(r"\.part-[0-9]+\.parquet\.tmp")
_LARGEST_WAITING = 64 << 20  # bytes
_GROUP_ROWS = 1 << 19  # per row group, about


class ParquetEncoder(Encoder):
    def __init__(self, schema: Schema, is_stream: bool, changes: bool = False) -> None:
        super().__init__(schema, is_stream, changes)
        zoned = [
            pa.field(name, pa.string() if name == "_op" else pa.timestamp("us", "UTC"))
            for name in times_of(is_stream, changes)
        ]
        self.arrow_schema = pa.schema(
            [pa.field(n, c.type.arrow) for n, c in zip(_distinct(self.schema), schema, strict=True)] + zoned
        )

    def start(self, path: str) -> Encoding:
        return _Part(self, path)

    def typed(self, table: pa.Table) -> pa.Table:
        columns = output_columns(table, self.schema, self.is_stream, self.changes)
        return pa.table(columns, names=self.arrow_schema.names).cast(self.arrow_schema)


class _Part(Encoding):
    """A part that is being written. Times and numbers mostly grow, so their differences are small: delta encoding takes
    half the time of a dictionary and far less space."""

    def __init__(self, encoder: ParquetEncoder, path: str) -> None:
        self._encoder, schema = encoder, encoder.arrow_schema
        texts = [f.name for f in schema if pa.types.is_string(f.type)]
        encoding = {f.name: "DELTA_BINARY_PACKED" for f in schema if _whole(f.type)}
        self._file = WrittenFile(path)
        self._writer = pq.ParquetWriter(self._file, schema, use_dictionary=texts, column_encoding=encoding)
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def add(self, table: pa.Table) -> None:
        self._waiting.append(self._encoder.typed(table))
        self._rows += table.num_rows
        if self._rows >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=2 * _GROUP_ROWS)
        self._waiting, self._rows = [], 0

    def finish(self) -> None:
        self._flush()
        self._writer.close()
        if self._encoder.syncs:
            self._file.sync()
        self._file.close()


class ParquetSink(Sink):
    commits_per_epoch = True  # a part each

    def __init__(self, path: str, schema: Schema, is_stream: bool, changes: bool = False) -> None:
        super().__init__(schema, is_stream, changes)
        self.path = os.path.normpath(path)
        self._encoder = ParquetEncoder(schema, is_stream, changes)
        self._waiting = WaitingRows()
        self._parts = 0
        self._renamed = False  # whether a part was renamed since the directory was last synced

    @property
    def arrow_schema(self) -> pa.Schema:
        return self._encoder.arrow_schema

    def open(self, position: SinkPosition | None) -> None:
        """Removes only files named like parts; other files in the directory stay."""
        make_directories(self.path, self.syncs)
        self._waiting.take()
        self._parts = 0 if position is None else int(position["parts"])
        for name in os.listdir(self.path):
            part = PART.fullmatch(name)
            if TEMPORARY.fullmatch(name) or (part and int(part.group(1)) >= self._parts):
                remove(os.path.join(self.path, name))
        missing = next((n for n in range(self._parts) if not os.path.exists(self._part(n))), None)
        if missing is not None:
            message = (
                f"the checkpoint needs the first {self._parts} parts, and this one is missing: restore it, or use a "
                "new checkpoint"
            )
            raise InputError(message, self._part(missing))
        if self.syncs:
            sync_directory(self.path)

    def write(self, table: pa.Table) -> None:
        self._waiting.add(table)
        if self._waiting.bytes > _LARGEST_WAITING:
            self._flush()

    def encoder(self) -> Encoder:
        self._encoder.syncs = self.syncs
        return self._encoder

    def adopt(self, path: str) -> None:
        self._flush()
        self._place(path)

    def commit(self) -> SinkPosition:
        self._flush()
        if self._renamed and self.syncs:
            sync_directory(self.path)
        self._renamed = False
        return {"parts": self._parts}

    def close(self) -> None:
        self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        temporary = os.path.join(self.path, f".part-{self._parts:05d}.parquet.tmp")
        self._encoder.syncs = self.syncs
        part = self._encoder.start(temporary)
        for table in self._waiting.take():
            part.add(table)
        part.finish()
        self._place(temporary)

    def _part(self, number: int) -> str:
        return os.path.join(self.path, f"part-{number:05d}.parquet")

    def _place(self, finished: str) -> None:
        move(finished, self._part(self._parts), self.syncs)
        self._parts += 1
        self._renamed = True


def _distinct(schema: Schema) -> list[str]:
    """Returns the column names with repeated ones numbered, because parquet readers refuse equal names."""
    names: list[str] = []
    for column in schema:
        name, count = column.name, 1
        while name in names or name in ("_from", "_to", "_at", "_op"):
            name, count = f"{column.name}_{count}", count + 1
        names.append(name)
    return names


def _whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))
