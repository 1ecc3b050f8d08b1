"""`INTO csv (path = ...)` and `--output DIR`: one RFC 4180 file, times in ISO-8601 UTC with microseconds.

Invariant: the file's bytes up to a sink position never change. NULL is an empty unquoted field, the empty string
is `""`; doubles read back to the same bits.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pyarrow as pa

from kigen.connectors.csv.lines import csv_lines
from kigen.connectors.encoding import Encoder, Encoding, output_columns, times_of
from kigen.connectors.sink_base import Sink, SinkPosition
from kigen.connectors.source_base import InputError
from kigen.durable import WrittenFile, make_directories, remove, sync_directory
from kigen.plan.types import Schema


class CsvEncoder(Encoder):
    """Lines without a header: a piece of the file to come."""

    def start(self, path: str) -> Encoding:
        return _Lines(self, path)

    def lines(self, table: pa.Table) -> Iterator[memoryview]:
        return csv_lines(output_columns(table, self.schema, self.is_stream))


class _Lines(Encoding):
    """Not synced: the sink copies the lines, and syncs its own file."""

    def __init__(self, encoder: CsvEncoder, path: str) -> None:
        self._encoder, self._file = encoder, open(path, "wb")  # noqa: SIM115 (lives until finish)

    def add(self, table: pa.Table) -> None:
        self._file.writelines(self._encoder.lines(table))

    def finish(self) -> None:
        self._file.close()


class CsvSink(Sink):
    def __init__(self, path: str, schema: Schema, is_stream: bool) -> None:
        super().__init__(schema, is_stream)
        self.path = os.path.normpath(path)
        self._encoder = CsvEncoder(schema, is_stream)
        self._file: WrittenFile | None = None

    def open(self, position: SinkPosition | None) -> None:
        directory = os.path.dirname(self.path) or "."
        make_directories(directory, self.syncs)
        if position is None:
            self._file = WrittenFile(self.path)
            self._file.write(_header([column.name for column in self.schema] + list(times_of(self.is_stream))))
            if self.syncs:
                sync_directory(directory)
            return
        keep = int(position["bytes"])
        found = os.path.getsize(self.path) if os.path.exists(self.path) else 0
        if found < keep:
            message = (
                f"the checkpoint needs its first {keep} bytes, found {found}: put the file back, or use a new "
                "checkpoint"
            )
            raise InputError(message, self.path)
        self._file = WrittenFile(self.path, keep)

    def write(self, table: pa.Table) -> None:
        assert self._file is not None, "open first"
        if not table.num_rows:
            return
        for lines in self._encoder.lines(table):
            self._file.write(lines)

    def encoder(self) -> Encoder:
        return self._encoder

    def adopt(self, path: str) -> None:
        assert self._file is not None, "open first"
        with open(path, "rb") as lines:
            shutil.copyfileobj(lines, self._file, 1 << 20)
        remove(path)

    def commit(self) -> SinkPosition:
        assert self._file is not None, "open first"
        if self.syncs:
            self._file.sync()
        return {"bytes": self._file.tell()}

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _header(names: list[str]) -> bytes:
    """Names may repeat, so the header is not left to a data frame."""
    quoted = [
        '"' + name.replace('"', '""') + '"' if not name or any(c in name for c in ',"\r\n') else name for name in names
    ]
    return (",".join(quoted) + "\n").encode()
