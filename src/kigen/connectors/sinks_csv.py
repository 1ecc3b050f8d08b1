"""`INTO csv (path = ...)` and `--output DIR`: one RFC 4180 file, times in ISO-8601 UTC with microseconds.

Invariant: the file's bytes up to a mark never change. NULL is an empty unquoted field, the empty string `""`; doubles read back to
the same bits.
"""

from __future__ import annotations

import io
import os
from typing import BinaryIO

import polars as pl
import pyarrow as pa

from kigen.connectors.base import InputError
from kigen.connectors.sinks import Mark, Sink, sync_directory
from kigen.plan.types import Schema

_TIME = "%Y-%m-%dT%H:%M:%S%.6fZ"


class CsvSink(Sink):
    def __init__(self, path: str, schema: Schema, is_stream: bool) -> None:
        super().__init__(schema, is_stream)
        self.path = os.path.normpath(path)
        self._file: BinaryIO | None = None

    def open(self, mark: Mark | None) -> None:
        directory = os.path.dirname(self.path) or "."
        os.makedirs(directory, exist_ok=True)
        if mark is None:
            self._file = open(self.path, "wb")  # noqa: SIM115 (lives until close)
            self._file.write(_header(self.names))
            sync_directory(directory)
            return
        keep = int(mark["bytes"])
        found = os.path.getsize(self.path) if os.path.exists(self.path) else 0
        if found < keep:
            message = f"the checkpoint needs its first {keep} bytes, found {found}: put the file back, or use a new checkpoint"
            raise InputError(message, self.path)
        self._file = open(self.path, "r+b")  # noqa: SIM115
        self._file.truncate(keep)
        self._file.seek(keep)

    def write(self, table: pa.Table) -> None:
        assert self._file is not None, "open first"
        if not table.num_rows:
            return
        positional = pa.table(self.columns(table), names=[f"x{i}" for i in range(len(self.names))])
        frame = pl.from_arrow(positional)
        assert isinstance(frame, pl.DataFrame)
        buffer = io.BytesIO()
        frame.write_csv(buffer, include_header=False, datetime_format=_TIME)
        self._file.write(buffer.getbuffer())

    def mark(self) -> Mark:
        assert self._file is not None, "open first"
        self._file.flush()
        os.fsync(self._file.fileno())
        return {"bytes": self._file.tell()}

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _header(names: list[str]) -> bytes:
    """Names may repeat, so the header is not left to a data frame."""
    quoted = ['"' + name.replace('"', '""') + '"' if not name or any(c in name for c in ',"\r\n') else name for name in names]
    return (",".join(quoted) + "\n").encode()
