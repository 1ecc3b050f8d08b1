"""A stream in lines of text (csv, JSON lines): ranges of bytes on the driver, cut at record ends.

Invariant: a position is the start of a record, with its physical line; ranges never span files; a range starts where
the one before it ended. A last line without a line end is a record only if the file is known to be complete
(`_is_complete`). Cost: `advance` reads the bytes it hands out once, and parses only the last record; `read` adds a
checksum, 2-4 % of parsing. What a row takes is learned as it goes.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.connectors.ahead import Ahead
from kigen.connectors.csv.records import Offsets
from kigen.connectors.input_files import Files
from kigen.connectors.options import check_names, path_of
from kigen.connectors.source_base import InputError, Position, Range, Rows, Source, checked
from kigen.plan.logical import SourceStream

LONGEST_RECORD = 64 << 20
_LARGEST_RANGE = 128 << 20
SETTLED_S = 10.0  # a file that nobody wrote to for so long is complete, whatever its last byte
_NOTHING = pa.table({})
_LOOK_BACK = 8  # record bounds kept, from the last: where a hint of the range's last timestamp is sought


@dataclass(frozen=True)
class Span:
    """The bytes of one range."""

    name: str
    data: bytes
    line: int  # of the first byte


@dataclass(frozen=True)
class Cut:
    """Some records from the start of a buffer: how many, and the bounds of the last few; the last bound is where they
    end."""

    rows: int
    bounds: list[int]


class TextSource(Source):
    suffixes: tuple[str, ...] = ()
    options: tuple[str, ...] = ("path",)

    def __init__(
        self, stream: SourceStream, directory: str, started_us: int | None = None, draining: bool = True
    ) -> None:
        owner = f"stream '{stream.name}'"
        check_names(owner, stream.source, self.options)
        if stream.timestamp is None:
            raise InputError(
                f"{owner} comes from a file: write TIMESTAMP BY and the column that holds each tuple's time"
            )
        self.stream = stream
        self.timestamp = stream.timestamp
        self.ahead = Ahead.of_file(stream, started_us)
        self.files = Files(path_of(owner, stream.source), directory, self.suffixes)
        self._row_bytes = 0.0
        self._draining = draining
        self._sizes: dict[str, int] = {}  # draining: of each file, when it was first looked at

    @abstractmethod
    def data_start(self, name: str) -> tuple[int, int]:
        """Byte and line of the file's first record; raises InputError if there can be none."""

    @abstractmethod
    def ends(self, data: bytes) -> Offsets:
        """Offsets just after each record of `data` that a line feed ends."""

    @abstractmethod
    def is_plain(self, data: bytes) -> bool:
        """Whether every line feed in `data` surely ends a record."""

    @abstractmethod
    def record_ts_us(self, name: str, record: bytes) -> int | None:
        """The record's timestamp, None if it has none."""

    @abstractmethod
    def parse(self, span: Span) -> Rows: ...

    def initial(self) -> Position:
        for name in self.files.names:
            self.data_start(name)
        return self._position(self.files.names[0])

    def advance(self, position: Position, max_rows: int) -> Range:
        at = self._skip_empty(position)
        name, start, line = at["file"], int(at["byte"]), int(at["line"])
        size = self._size(name)
        if start >= size:
            return Range(self.stream.name, position, position, rows=0, ended=True)
        taken = self._take(name, start, line, size, max(1, max_rows))
        if taken is None:
            return Range(self.stream.name, position, position, rows=0)
        data, cut = taken
        length = cut.bounds[-1]
        end = {"file": name, "byte": start + length, "line": line + data.count(b"\n", 0, length)}
        self._row_bytes = length / cut.rows
        ended = start + length >= size and self._skip_empty(end) == end
        return Range(
            self.stream.name,
            position,
            end,
            rows=cut.rows,
            last_ts_us=self._last_ts_us(name, data, cut.bounds),
            ended=ended,
        )

    def read(self, piece: Range) -> Rows:
        name, end = piece.end["file"], int(piece.end["byte"])
        first = piece.start if piece.start["file"] == name else self._position(name)
        start, line = int(first["byte"]), int(first["line"])
        data = self.files.read(name, start, end - start)
        if len(data) < end - start:
            raise InputError(f"has become shorter than {end} bytes since the run began", self.files.full(name))
        found = Rows(_NOTHING, checksum=zlib.crc32(data))
        checked(piece, found, self.files.full(name))
        return replace(self.parse(Span(name, data, line)), checksum=found.checksum)

    def fraction(self, position: Position) -> float | None:
        size = self.files.size(position["file"])
        return self.files.share_before(position["file"], int(position["byte"]) / size if size else 1.0)

    def _position(self, name: str) -> dict[str, Any]:
        byte, line = self.data_start(name)
        return {"file": name, "byte": byte, "line": line}

    def _skip_empty(self, position: Position) -> Position:
        """The same place, or the start of the next file that holds records if this one is finished."""
        if int(position["byte"]) < self._size(position["file"]):
            return position
        for name in self.files.after(position["file"]):
            start = self._position(name)
            if start["byte"] < self._size(name):
                return start
        return position

    def _size(self, name: str) -> int:
        """Draining reads a file as it was when it was first looked at, so that one that grows comes to an end."""
        if not self._draining:
            return self.files.size(name)
        if name not in self._sizes:
            self._sizes[name] = self.files.size(name)
        return self._sizes[name]

    def _is_complete(self, name: str) -> bool:
        """Whether a last line without a line end is a record: else it may be half of one that somebody is writing."""
        return self._draining or bool(self.files.after(name)) or self.files.age_s(name) > SETTLED_S

    def _take(self, name: str, start: int, line: int, size: int, max_rows: int) -> tuple[bytes, Cut] | None:
        """Bytes from `start`, and at most `max_rows` records in them; None: only the beginning of a record is there
        yet."""
        want = min(self._guess(max_rows), _LARGEST_RANGE)
        while True:
            data = self.files.read(name, start, min(want, size - start))
            at_end = start + len(data) >= size
            cut = self._cut(data, at_end and (data.endswith(b"\n") or self._is_complete(name)), max_rows)
            if cut is not None:
                return data, cut
            if at_end:
                return None
            if len(data) > LONGEST_RECORD:
                message = (
                    f"a record longer than {LONGEST_RECORD >> 20} MiB begins here: is a closing quote or a "
                    "line end missing?"
                )
                raise InputError(message, self.files.full(name), line)
            want *= 4

    def _guess(self, max_rows: int) -> int:
        """Bytes of that many rows: rather too few than too many where that spares finding the exact place."""
        return int(max_rows * (self._row_bytes or 64.0) * (0.99 if max_rows >= 4096 else 1.02)) + 256

    def _cut(self, data: bytes, at_end: bool, max_rows: int) -> Cut | None:
        """At most `max_rows` records from the start of `data`; None if not even one ends in it."""
        if self.is_plain(data):
            rows = data.count(b"\n") + (at_end and not data.endswith(b"\n"))
            if rows <= max_rows:
                return Cut(rows, _last_lines(data, at_end)) if rows else None
        ends = self.ends(data)
        if at_end and (not len(ends) or ends[-1] < len(data)):
            ends = np.append(ends, len(data))
        ends = ends[:max_rows]
        bounds = [0, *ends.tolist()] if len(ends) < _LOOK_BACK else ends[-_LOOK_BACK:].tolist()
        return Cut(len(ends), bounds) if len(ends) else None

    def _last_ts_us(self, name: str, data: bytes, bounds: list[int]) -> int | None:
        for start, end in reversed(list(pairwise(bounds))):
            found = self.record_ts_us(name, data[start:end])
            if found is not None:
                return found
        return None


def _last_lines(data: bytes, at_end: bool) -> list[int]:
    bounds = [len(data) if at_end else data.rfind(b"\n") + 1]
    while len(bounds) < _LOOK_BACK and bounds[-1] > 0:
        bounds.append(data.rfind(b"\n", 0, bounds[-1] - 1) + 1)
    return bounds[::-1]
