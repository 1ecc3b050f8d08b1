"""Reads a stream from text files (csv, JSON lines): hands out ranges of bytes on the driver, cut at record ends.

Invariant: a position is the start of a record, with its physical line. Ranges never span files, and a range starts
where the one before it ended. A last line without a line end is a record only if the file is known to be complete
(`_is_complete`). Cost: `advance` reads the bytes that it hands out once, and parses only the last record; `read` adds a
checksum, 2-4 % of parsing. The average size of a row is learned from the ranges before.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kigen.connectors.ahead import Ahead
from kigen.connectors.input_files import Files
from kigen.connectors.options import path_of, suffixes_of
from kigen.connectors.source_base import InputError, Position, Range, Rows, Source, checked
from kigen.plan.logical import SourceStream

Offsets = npt.NDArray[np.int64]  # of bytes
LONGEST_RECORD = 64 << 20
_LARGEST_RANGE = 128 << 20
SETTLED_S = 10.0  # a file without writes for this long is complete, whatever its last byte is
_NOTHING = pa.table({})
_LOOK_BACK = 8  # record bounds that are kept, from the last: the hint of the last timestamp comes from one of them


@dataclass(frozen=True)
class Span:
    """Bytes of one range."""

    name: str
    data: bytes
    line: int  # of the first byte


@dataclass(frozen=True)
class Cut:
    """Records from the start of a buffer: how many, and the bounds of the last few. They end at the last bound."""

    rows: int
    bounds: list[int]


class TextSource(Source):
    """A source over text files. Subclasses say where records end and how to parse them."""

    def __init__(
        self, stream: SourceStream, directory: str, started_us: int | None = None, draining: bool = True
    ) -> None:
        owner = f"stream '{stream.name}'"
        if stream.timestamp is None and not stream.table:
            raise InputError(
                f"{owner} comes from a file: write TIMESTAMP BY and the column that holds each tuple's time"
            )
        self.stream = stream
        self.timestamp = stream.timestamp
        self.ahead = Ahead.of_file(stream, started_us)
        by_time = stream.source.option("order") == "time"
        self.files = Files(path_of(owner, stream.source), directory, suffixes_of(stream.source), by_time)
        self._row_bytes = 0.0
        self._draining = draining
        self._sizes: dict[str, int] = {}  # draining: the size of each file when it was first looked at

    @abstractmethod
    def data_start(self, name: str) -> tuple[int, int]:
        """Returns byte and line of the file's first record; raises InputError if there can be none."""

    @abstractmethod
    def ends(self, data: bytes) -> Offsets:
        """Returns the offsets just after each record of `data` that a line feed ends."""

    @abstractmethod
    def is_plain(self, data: bytes) -> bool:
        """Returns whether every line feed in `data` certainly ends a record."""

    @abstractmethod
    def record_ts_us(self, name: str, record: bytes) -> int | None:
        """Returns the record's timestamp; None if it has none."""

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
        """Returns the same position, or the start of the next file with records if this file is finished."""
        if int(position["byte"]) < self._size(position["file"]):
            return position
        for name in self.files.after(position["file"]):
            start = self._position(name)
            if start["byte"] < self._size(name):
                return start
        return position

    def _size(self, name: str) -> int:
        """Returns the size to read to. Draining uses the first size it saw, so that a growing file comes to an end."""
        if not self._draining:
            return self.files.size(name)
        if name not in self._sizes:
            self._sizes[name] = self.files.size(name)
        return self._sizes[name]

    def _is_complete(self, name: str) -> bool:
        """Returns whether a last line without a line end is a record, and not half of one that is still being
        written."""
        return self._draining or bool(self.files.after(name)) or self.files.age_s(name) > SETTLED_S

    def _take(self, name: str, start: int, line: int, size: int, max_rows: int) -> tuple[bytes, Cut] | None:
        """Returns bytes from `start` and at most `max_rows` records in them; None if only the beginning of a record has
        been written so far."""
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
        """Guesses the bytes of that many rows: a little too few for large ranges, which saves finding the exact end."""
        return int(max_rows * (self._row_bytes or 64.0) * (0.99 if max_rows >= 4096 else 1.02)) + 256

    def _cut(self, data: bytes, at_end: bool, max_rows: int) -> Cut | None:
        """Returns at most `max_rows` records from the start of `data`; None if not even one ends in it."""
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
