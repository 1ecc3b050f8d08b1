"""Reads `FROM csv (path = ..., follow = true)`, and the same of JSON lines and parquet: a live stream of files that
grow or appear.

On the driver a watcher finds records and gives them offsets. A range carries the files and bytes of its records, and
when they came, so a worker needs nothing else. Invariant: a range always gives the same rows, as long as its files
exist under any name; its checksum is that of the bytes. Cost: the driver reads text once to find where records end, and
workers read it again to parse it.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.connectors.bad_rows import KEPT
from kigen.connectors.casting import with_ts
from kigen.connectors.follow.file_identity import FileId
from kigen.connectors.follow.follower import Follower
from kigen.connectors.follow.found_files import FoundFiles
from kigen.connectors.follow.found_records import ParquetFinder, RecordFinder, TextFinder
from kigen.connectors.follow.listing import Listing
from kigen.connectors.follow.open_file import OpenFile
from kigen.connectors.follow.visits import shared_visits
from kigen.connectors.follow.watcher import Watcher
from kigen.connectors.options import path_of, suffixes_of
from kigen.connectors.parquet.source import ParquetSource
from kigen.connectors.source_base import InputError, LiveSource, Position, Range, Rows, Times, checked
from kigen.connectors.text_files import Span, TextSource
from kigen.connectors.values.missing_columns import merged_missing
from kigen.connectors.values.unknown_fields import merged
from kigen.lifetimes.blocks import FOREVER
from kigen.lifetimes.partitions import PARTITION, Partitions
from kigen.plan.logical import SourceStream

Part = dict[str, Any]  # of one file: see `RecordPath.parts`
_NOTHING = pa.table({})
_PARTITION = "files"  # all files of a stream are one partition
TICK_US = 100_000  # a silence moves the watermark at most so often
FOLDER = "follow"  # in the checkpoint


class FollowedSource(LiveSource):
    """A live stream of the files of a path. `parser` reads the same files when they do not grow."""

    live = True

    def __init__(
        self, stream: SourceStream, directory: str, parser: TextSource | ParquetSource, checkpoint: str | None
    ) -> None:
        owner = f"stream '{stream.name}'"
        by_time = stream.source.option("order", "name") == "time"
        self.stream, self._parser = stream, parser
        self._listing = Listing(path_of(owner, stream.source), directory, suffixes_of(stream.source), by_time)
        self._files = parser.files = FoundFiles(directory)
        self._finder = finder_of(stream)
        self._visits = None if checkpoint is None else Path(checkpoint) / FOLDER / f"{stream.name}.visits"
        self._positions: Mapping[int, Position | None] = {}
        self._heard_us = 0  # when a record came last; after a restart, when the run continued
        self._last: tuple[int, Position | None] | None = None  # the position that was asked for last
        self._watcher: Watcher | None = None
        self._call: Callable[[], None] = _nobody

    def initial(self) -> Position:
        """Checks the files that are there, if any: they may come later."""
        for name, _ in self._listing.names():
            with OpenFile(self._listing.full(name)) as file:
                self._finder.begin(file)
        return {"index": 0}

    def advance(self, position: Position, max_rows: int) -> Range:
        raise TypeError("a stream of files that grow is admitted by a policy")

    def fraction(self, position: Position) -> float | None:
        return None

    # --- on the driver -----------------------------------------------------------------------------------------------

    def resume(self, positions: Mapping[int, Position | None]) -> None:
        known = {index: at if at is not None and "visit" in at else None for index, at in positions.items()}
        self._positions, self._heard_us = known, time.time_ns() // 1000

    @property
    def _watching(self) -> Watcher:
        if self._watcher is None:
            self._watcher = Watcher(self.stream.name, self._follower, self._call)
        return self._watcher

    def _follower(self) -> Follower:
        visits = shared_visits(self._visits)
        return Follower(self._listing, self._finder, visits, self._positions, self.stream.on_error_skip)

    def arrived_by(self, now_us: int) -> int:
        with self._watching.lock:
            return self._watching.path.arrived_by(now_us)

    def arrivals_us(self, first: int, end: int) -> Times:
        with self._watching.lock:
            self._watching.asked(end)
            return self._watching.path.arrivals_us(first, end)

    def complete_us(self, now_us: int) -> int | None:
        return None  # the timestamps say it, and LATENESS

    def call_on_news(self, call: Callable[[], None]) -> bool:
        """With IDLE, a silence is news, too, and nobody calls for it."""
        assert self._watcher is None, "before anything is asked"
        self._call = call
        return self.stream.idle_us is None

    def completes_at_us(self, watermark_us: int) -> int:
        return FOREVER  # no clock moves the watermark

    def progress_before(self, number: int, arrival_us: int) -> int | None:
        return None

    def total(self) -> int | None:
        return None

    def position(self, index: int) -> Position | None:
        self._last = (index, self._position(index))
        return self._last[1]

    def _position(self, index: int) -> Position | None:
        """Returns the position, with the silence that IDLE notices: since when, and for how long."""
        with self._watching.lock:
            path = self._watching.path
            at, is_end = path.position(index), index == path.end
            self._heard_us = max(self._heard_us, path.last_arrived_us or 0)
        if at is None or self.stream.idle_us is None or not is_end or not index:
            return at
        since_us = self._heard_us + self.stream.idle_us
        lasting_us = time.time_ns() // 1000 - since_us
        return at if lasting_us < 0 else {**at, "silence": [since_us, lasting_us]}

    def wants_step(self, at: Position | None) -> bool:
        """Returns whether the silence has lasted a good while longer than `at` says."""
        if at is None or self.stream.idle_us is None:
            return False
        now = self._position(int(at["index"])) or {}
        if "silence" not in now:
            return False
        since_us, lasting_us = now["silence"]
        before = at.get("silence", (0, 0))
        passed_us = lasting_us - (before[1] if before[0] == since_us else 0)
        return "silence" not in at or bool(passed_us > max(TICK_US, self.stream.idle_us // 10, lasting_us // 20))

    def forget_before(self, index: int) -> None:
        with self._watching.lock:
            self._watching.path.forget_before(index)

    def piece(self, name: str, first: int, end: int, progress_us: int | None, ended: bool) -> Range:
        with self._watching.lock:
            parts = self._watching.path.parts(first, end)
        at = self._last[1] if self._last is not None and self._last[0] == end else self.position(end)
        stop: Position = {**(at or {"index": end}), **({"parts": parts} if parts else {})}
        return Range(name, {"index": first}, stop, rows=end - first, progress_us=progress_us, ended=ended)

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()

    # --- in workers --------------------------------------------------------------------------------------------------

    def read(self, piece: Range) -> Rows:
        rows = self._rows(piece)
        if self.stream.idle_us is None:
            return rows
        names = pa.array([_PARTITION] * rows.table.num_rows, pa.string()).dictionary_encode()
        silence = piece.end.get("silence")
        partitions = Partitions(
            (_PARTITION,),
            frozenset() if silence is None else frozenset({_PARTITION}),
            None if silence is None else (int(silence[0]), int(silence[1])),
        )
        return replace(rows, table=rows.table.append_column(PARTITION, names), partitions=partitions)

    def _rows(self, piece: Range) -> Rows:
        parts: list[Part] = piece.end.get("parts", [])
        if not parts:
            columns = [pa.chunked_array([], c.type.arrow) for c in self.stream.schema]
            return Rows(with_ts(columns, self.stream.schema, self.stream.timestamp), arrivals_us=np.zeros(0, np.int64))
        read = self._read_text(piece) if isinstance(self._parser, TextSource) else self._read_rows(parts)
        found = Rows(
            pa.concat_tables([rows.table for rows in read]),
            sum(rows.skipped for rows in read),
            [error for rows in read for error in rows.errors][:KEPT],
            tuple(row for rows in read for row in rows.bad),
            arrivals_us=np.concatenate([rows.arrivals_us for rows in read if rows.arrivals_us is not None]),
            checksum=_joined_checksum(read),
            unknown=merged(rows.unknown for rows in read),
            missing=merged_missing(rows.missing for rows in read),
        )
        return checked(piece, found, self._files.full(_key(parts[-1])))

    def _read_text(self, piece: Range) -> list[Rows]:
        parser, parts = self._parser, piece.end["parts"]
        assert isinstance(parser, TextSource)
        texts = [self._bytes(part) for part in parts]
        raw = [Rows(_NOTHING, checksum=zlib.crc32(data)) for data in texts]
        checked(piece, Rows(_NOTHING, checksum=_joined_checksum(raw)), self._files.full(_key(parts[-1])))

        def parse(part: Part, data: bytes, first: int, last: int) -> Rows:
            first, last = first - int(part["from"]), last - int(part["from"])
            line = int(part["line"]) + data.count(b"\n", 0, first)
            return parser.parse(Span(_key(part), data[first:last], line))

        read = [_with_arrivals(part, partial(parse, part, data)) for part, data in zip(parts, texts, strict=True)]
        return [replace(rows, checksum=before.checksum) for rows, before in zip(read, raw, strict=True)]

    def _bytes(self, part: Part) -> bytes:
        start, end = int(part["from"]), int(part["to"])
        key = self._files.know(FileId.from_json(part["file"]), end)
        data = self._files.read(key, start, end - start)
        if len(data) < end - start:
            raise InputError(f"has become shorter than {end} bytes since its records were found", self._files.full(key))
        return data

    def _read_rows(self, parts: list[Part]) -> list[Rows]:
        parser = self._parser
        assert isinstance(parser, ParquetSource)

        def parse(part: Part, first: int, last: int) -> Rows:
            return parser.read(parser.range_of(_key(part), first, last))

        for part in parts:
            self._files.know(FileId.from_json(part["file"]), 0)
        return [_with_arrivals(part, partial(parse, part)) for part in parts]


def _nobody() -> None:
    """Called where nobody has asked for calls."""


def finder_of(stream: SourceStream) -> RecordFinder:
    if stream.source.name == "parquet":
        return ParquetFinder()
    return TextFinder(stream if stream.source.name == "csv" else None)


def _with_arrivals(part: Part, parse: Callable[[int, int], Rows]) -> Rows:
    """Parses a part and gives each row its arrival. If some records are no rows, each group is parsed by itself."""
    groups: list[tuple[int, int, int]] = [(int(n), int(us), int(end)) for n, us, end in part["arrived"]]
    rows = parse(int(part["from"]), int(part["to"]))
    if rows.table.num_rows == sum(count for count, _, _ in groups) or len(groups) == 1:
        counts = [count for count, _, _ in groups] if len(groups) > 1 else [rows.table.num_rows]
    else:
        starts = [int(part["from"]), *(end for _, _, end in groups[:-1])]
        counts = [parse(start, end).table.num_rows for start, (_, _, end) in zip(starts, groups, strict=True)]
    return replace(rows, arrivals_us=np.repeat(np.array([us for _, us, _ in groups], np.int64), counts))


def _joined_checksum(read: list[Rows]) -> int:
    checksum = 0
    for rows in read:
        checksum = zlib.crc32(f"{rows.checksum or 0:08x}".encode(), checksum)
    return checksum


def _key(part: Part) -> str:
    file = FileId.from_json(part["file"])
    return f"{file.born}:{file.name}"
