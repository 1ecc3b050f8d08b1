"""Writes results into one text file: a header if the format has one, then lines. The base of the csv and jsonl sinks.

Invariant: the file's bytes up to a sink position never change.
"""

from __future__ import annotations

import os
import shutil
import zlib
from abc import abstractmethod
from collections.abc import Iterator

import pyarrow as pa

from kigen.connectors.encoding import Encoder, Encoding
from kigen.connectors.sink_base import Sink, SinkPosition
from kigen.connectors.source_base import InputError
from kigen.durable import WrittenFile, make_directories, remove, sync_directory

_TAIL_BYTES = 1 << 16


def _tail(path: str, end: int) -> int:
    """Returns a checksum of the last bytes before `end`."""
    with open(path, "rb") as file:
        file.seek(max(0, end - _TAIL_BYTES))
        return zlib.crc32(file.read(min(end, _TAIL_BYTES)))


class TextEncoder(Encoder):
    """Renders lines. A file of it has no header: it is a piece of the file to come."""

    def start(self, path: str) -> Encoding:
        return _Lines(self, path)

    def header(self) -> bytes:
        return b""

    @abstractmethod
    def lines(self, table: pa.Table) -> Iterator[memoryview]:
        """Yields the bytes of the table's lines, in large pieces."""


class _Lines(Encoding):
    """Not synced: the sink copies the lines, and syncs its own file."""

    def __init__(self, encoder: TextEncoder, path: str) -> None:
        self._encoder, self._file = encoder, open(path, "wb")  # noqa: SIM115 (lives until finish)

    def add(self, table: pa.Table) -> None:
        self._file.writelines(self._encoder.lines(table))

    def finish(self) -> None:
        self._file.close()


class TextFileSink(Sink):
    """Writes one file with the lines of an encoder."""

    def __init__(self, path: str, encoder: TextEncoder) -> None:
        super().__init__(encoder.schema, encoder.is_stream, encoder.changes)
        self.path = os.path.normpath(path)
        self._encoder = encoder
        self._file: WrittenFile | None = None

    def open(self, position: SinkPosition | None) -> None:
        directory = os.path.dirname(self.path) or "."
        make_directories(directory, self.syncs)
        if position is None:
            self._file = WrittenFile(self.path)
            self._file.write(self._encoder.header())
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
        if "tail" in position and _tail(self.path, keep) != position["tail"]:
            message = (
                f"the last of its first {keep} bytes are not those that were written: a power cut has taken what was "
                "not synced (durability = process). Put the file back, or use a new checkpoint"
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
        reached = self._file.tell()
        if not self.syncs:  # a power cut may leave zeros in bytes that were never synced
            return {"bytes": reached, "tail": _tail(self.path, reached)}
        self._file.sync()
        return {"bytes": reached}

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
