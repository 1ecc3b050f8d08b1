"""A stream in lines of text (csv, JSON lines): ranges of bytes on the driver, cut at record ends.

Invariant: a position is the start of a record, with its physical line; ranges never span files; a range starts where the one before
it ended. Cost: `advance` reads the bytes it hands out once, and parses only the last record. What a row takes is learned as it
goes.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from kigen.connectors.base import InputError, Position, Range, Rows, Source
from kigen.connectors.files import Files
from kigen.connectors.options import check_names, path_of
from kigen.connectors.records import Offsets
from kigen.plan.nodes import Stream

LONGEST_RECORD = 64 << 20
_LOOK_BACK = 8  # records tried, from the last, for a hint of the range's last timestamp


@dataclass(frozen=True)
class Span:
    """The bytes of one range."""

    name: str
    data: bytes
    line: int  # of the first byte


class TextSource(Source):
    suffixes: tuple[str, ...] = ()
    options: tuple[str, ...] = ("path",)

    def __init__(self, stream: Stream, directory: str) -> None:
        owner = f"stream '{stream.name}'"
        check_names(owner, stream.source, self.options)
        if stream.timestamp is None:
            raise InputError(f"{owner} comes from a file: write TIMESTAMP BY and the column that holds each tuple's time")
        self.stream = stream
        self.timestamp = stream.timestamp
        self.files = Files(path_of(owner, stream.source), directory, self.suffixes)
        self._row_bytes = 0.0

    @abstractmethod
    def data_start(self, name: str) -> tuple[int, int]:
        """Byte and line of the file's first record; raises InputError if there can be none."""

    @abstractmethod
    def ends(self, data: bytes) -> Offsets:
        """Offsets just after each record of `data` that a line feed ends."""

    @abstractmethod
    def record_ts_us(self, name: str, record: bytes) -> int | None:
        """The record's timestamp, None if it has none."""

    @abstractmethod
    def parse(self, span: Span) -> Rows: ...

    def initial(self) -> Position:
        for name in self.files.names:
            self.data_start(name)
        return self._position(self.files.names[0])

    def advance(self, position: Position, max_rows: int, now_us: int | None = None) -> Range:
        at = self._skip_empty(position)
        name, start, line = at["file"], int(at["byte"]), int(at["line"])
        size = self.files.size(name)
        if start >= size:
            return Range(self.stream.name, position, position, rows=0, ended=True)
        data, ends = self._take(name, start, line, size, max(1, max_rows))
        length = int(ends[-1])
        end = {"file": name, "byte": start + length, "line": line + data.count(b"\n", 0, length)}
        self._row_bytes = length / len(ends)
        ended = start + length >= size and self._skip_empty(end) == end
        return Range(self.stream.name, position, end, rows=len(ends), last_ts_us=self._last_ts_us(name, data, ends), ended=ended)

    def read(self, piece: Range) -> Rows:
        name, end = piece.end["file"], int(piece.end["byte"])
        first = piece.start if piece.start["file"] == name else self._position(name)
        start, line = int(first["byte"]), int(first["line"])
        data = self.files.read(name, start, end - start)
        if len(data) < end - start:
            raise InputError(f"has become shorter than {end} bytes since the run began", self.files.full(name))
        return self.parse(Span(name, data, line))

    def fraction(self, position: Position) -> float | None:
        size = self.files.size(position["file"])
        return self.files.share_before(position["file"], int(position["byte"]) / size if size else 1.0)

    def _position(self, name: str) -> dict[str, Any]:
        byte, line = self.data_start(name)
        return {"file": name, "byte": byte, "line": line}

    def _skip_empty(self, position: Position) -> Position:
        """The same place, or the start of the next file that holds records if this one is finished."""
        if int(position["byte"]) < self.files.size(position["file"]):
            return position
        for name in self.files.after(position["file"]):
            start = self._position(name)
            if start["byte"] < self.files.size(name):
                return start
        return position

    def _take(self, name: str, start: int, line: int, size: int, max_rows: int) -> tuple[bytes, Offsets]:
        """Bytes from `start`, and the ends of at most `max_rows` records in them."""
        want = int(max_rows * (self._row_bytes or 64.0) * 1.02) + 1024
        while True:
            data = self.files.read(name, start, min(want, size - start))
            ends = self.ends(data)
            if start + len(data) >= size and (not len(ends) or ends[-1] < len(data)):
                ends = np.append(ends, len(data))
            if len(ends):
                return data, ends[:max_rows]
            if len(data) > LONGEST_RECORD:
                message = f"a record longer than {LONGEST_RECORD >> 20} MiB begins here: is a closing quote or a line end missing?"
                raise InputError(message, self.files.full(name), line)
            want *= 4

    def _last_ts_us(self, name: str, data: bytes, ends: Offsets) -> int | None:
        for i in range(len(ends) - 1, max(-1, len(ends) - 1 - _LOOK_BACK), -1):
            record = data[int(ends[i - 1]) if i else 0 : int(ends[i])]
            found = self.record_ts_us(name, record)
            if found is not None:
                return found
        return None
