"""Writes `INTO parquet (path = ..., partition_by = 'a, b')`: directories `a=1/b=x` with parts, as Spark reads them.

Invariant: a part of number n may have a file in several directories, each complete by its rename; the columns of
partition_by are in the directory names only. All files of a part appear before its position is recorded, and opening
removes those of later parts. Values are percent-encoded; NULL is `__HIVE_DEFAULT_PARTITION__`.
"""

from __future__ import annotations

import os
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from kigen.connectors.encoding import Encoder
from kigen.connectors.json_messages import value_texts
from kigen.connectors.parquet.sink import PART, TEMPORARY, ParquetSink
from kigen.connectors.sink_base import SinkPosition
from kigen.connectors.source_base import InputError
from kigen.durable import WrittenFile, make_directories, move, remove, sync_directory
from kigen.plan.types import Schema

_NULL = "__HIVE_DEFAULT_PARTITION__"


class PartitionedParquetSink(ParquetSink):
    """Writes one file per partition and commit."""

    def __init__(
        self, path: str, schema: Schema, is_stream: bool, changes: bool, partition_by: tuple[int, ...]
    ) -> None:
        super().__init__(path, schema, is_stream, changes)
        self._keys = [self.arrow_schema.names[i] for i in partition_by]
        self._touched: set[str] = set()  # directories with names that are not synced

    def open(self, position: SinkPosition | None) -> None:
        make_directories(self.path, self.syncs)
        self._waiting.take()
        self._parts = 0 if position is None else int(position["parts"])
        found: set[int] = set()
        for folder, _, names in os.walk(self.path):
            for name in names:
                part = PART.fullmatch(name)
                if TEMPORARY.fullmatch(name) or (part and int(part.group(1)) >= self._parts):
                    remove(os.path.join(folder, name))
                elif part:
                    found.add(int(part.group(1)))
        missing = next((n for n in range(self._parts) if n not in found), None)
        if missing is not None:
            message = (
                f"the checkpoint needs the first {self._parts} parts, and no directory has part {missing}: restore it, "
                "or use a new checkpoint"
            )
            raise InputError(message, self.path)
        if self.syncs:
            sync_directory(self.path)

    def encoder(self) -> Encoder | None:  # type: ignore[override]
        return None

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables([self._encoder.typed(table) for table in self._waiting.take()]).combine_chunks()
        number, kept = self._parts, [name for name in rows.column_names if name not in self._keys]
        names, codes = _partitions(rows.select(self._keys))
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(names)), side="right")
        for name, begin, end in zip(names, [0, *ends], ends, strict=False):
            self._write_file(os.path.join(self.path, name), number, rows.select(kept).take(order[begin:end]))
        self._parts += 1

    def _write_file(self, folder: str, number: int, rows: pa.Table) -> None:
        make_directories(folder, self.syncs)
        temporary = os.path.join(folder, f".part-{number:05d}.parquet.tmp")
        file = WrittenFile(temporary)
        pq.write_table(rows, file)
        if self.syncs:
            file.sync()
        file.close()
        move(temporary, os.path.join(folder, f"part-{number:05d}.parquet"), self.syncs)
        self._touched.add(folder)

    def read(self) -> pa.Table:
        """Returns all rows, with the columns in the order of the query."""
        keys = pa.schema([self.arrow_schema.field(name) for name in self._keys])
        hive = ds.partitioning(keys, flavor="hive")
        return ds.dataset(self.path, self.arrow_schema, format="parquet", partitioning=hive).to_table()

    def commit(self) -> SinkPosition:
        self._flush()
        for folder in sorted(self._touched) if self.syncs else ():
            sync_directory(folder)
        self._touched = set()
        return {"parts": self._parts}


def _partitions(keys: pa.Table) -> tuple[list[str], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Returns the directories, and the number of each row's directory."""
    columns = [_directory_names(name, keys[name].combine_chunks()) for name in keys.column_names]
    paths = [os.path.join(*parts) for parts in zip(*columns, strict=True)]
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(path, len(numbers)) for path in paths], dtype=np.int64)
    return list(numbers), codes


def _directory_names(name: str, column: pa.Array) -> list[str]:
    encoded = column.dictionary_encode()
    values = encoded.dictionary
    texts = values.to_pylist() if pa.types.is_string(values.type) else value_texts(values).to_pylist()
    named = [f"{quote(name, safe='')}={quote(str(text).strip(chr(34)), safe='')}" for text in texts]
    missing = f"{quote(name, safe='')}={_NULL}"
    return [missing if index is None else named[index] for index in encoded.indices.to_pylist()]
