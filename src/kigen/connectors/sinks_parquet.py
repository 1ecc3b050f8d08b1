"""`INTO parquet (path = ...)`: a directory of part-00000.parquet, part-00001.parquet, ...

Invariant: a part appears by a rename, complete, and its number says its place; rows wait in memory until `mark` makes a part of
them.
"""

from __future__ import annotations

import os
import re

import pyarrow as pa
import pyarrow.parquet as pq

from kigen.connectors.sinks import Mark, Sink, sync_directory
from kigen.plan.types import Schema

_PART = re.compile(r"part-([0-9]{5,})\.parquet")
_TEMPORARY = re.compile(r"\.part-[0-9]+\.parquet\.tmp")
_LARGEST_WAITING = 64 << 20  # bytes


class ParquetSink(Sink):
    def __init__(self, path: str, schema: Schema, is_stream: bool) -> None:
        super().__init__(schema, is_stream)
        self.path = os.path.normpath(path)
        zoned = [pa.field(name, pa.timestamp("us", "UTC")) for name in self.times]
        self.arrow_schema = pa.schema([pa.field(n, c.type.arrow) for n, c in zip(_distinct(self.schema), schema, strict=True)] + zoned)
        # Times and numbers mostly grow: their differences are small, and take half the time and far less room than a dictionary.
        self._texts = [f.name for f in self.arrow_schema if pa.types.is_string(f.type)]
        self._encoding = {f.name: "DELTA_BINARY_PACKED" for f in self.arrow_schema if _whole(f.type)}
        self._waiting: list[pa.Table] = []
        self._parts = 0

    def open(self, mark: Mark | None) -> None:
        """Only names that a sink gives are touched: other files in the directory stay."""
        os.makedirs(self.path, exist_ok=True)
        self._waiting, self._parts = [], 0 if mark is None else int(mark["parts"])
        for name in os.listdir(self.path):
            part = _PART.fullmatch(name)
            if _TEMPORARY.fullmatch(name) or (part and int(part.group(1)) >= self._parts):
                os.remove(os.path.join(self.path, name))
        sync_directory(self.path)

    def write(self, table: pa.Table) -> None:
        if table.num_rows:
            self._waiting.append(pa.table(self.columns(table), names=self.arrow_schema.names).cast(self.arrow_schema))
        if sum(t.nbytes for t in self._waiting) > _LARGEST_WAITING:
            self._flush()

    def mark(self) -> Mark:
        self._flush()
        return {"parts": self._parts}

    def close(self) -> None:
        self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        name = f"part-{self._parts:05d}.parquet"
        temporary = os.path.join(self.path, f".{name}.tmp")
        with open(temporary, "wb") as file:
            pq.write_table(pa.concat_tables(self._waiting), file, use_dictionary=self._texts, column_encoding=self._encoding)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, os.path.join(self.path, name))
        sync_directory(self.path)
        self._parts += 1
        self._waiting = []


def _distinct(schema: Schema) -> list[str]:
    """Column names, a repeated one numbered: parquet readers refuse two of one name."""
    names: list[str] = []
    for column in schema:
        name, count = column.name, 1
        while name in names or name in ("_from", "_to", "_at"):
            name, count = f"{column.name}_{count}", count + 1
        names.append(name)
    return names


def _whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))
