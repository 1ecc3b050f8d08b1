"""Defines `Source`: a replayable log that hands out ranges on the driver and reads them as tables in the executors.

Invariant: `read` of the same range returns the same table, always and everywhere. A position is plain JSON and is
recorded in Spark's offset.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kigen.connectors.values.missing_columns import Missing
from kigen.connectors.values.unknown_fields import Unknown
from kigen.lifetimes import StreamInput
from kigen.lifetimes.partitions import Partitions

Times = npt.NDArray[np.int64]
Position = dict[str, Any]  # where a reader of the log continues; plain JSON
quoted = lru_cache(maxsize=4096)(json.dumps)  # names as JSON: a round has those of all its tasks
_NULL = "null"
_NO_TIMES = np.zeros(0, np.int64)


class InputError(ValueError):
    """Input cannot be read. Ends the run with exit code 1; carries the place and survives pickling through Spark."""

    def __init__(
        self, message: str, file: str | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(message, file, line, field)
        self.message, self.file, self.line, self.field = message, file, line, field

    def __str__(self) -> str:
        place = ":".join(str(p) for p in (self.file, self.line) if p is not None)
        named = f" field '{self.field}':" if self.field else ""
        return f"{place}:{named} {self.message}" if place else self.message


@dataclass(slots=True)
class Range:
    """A part of one stream, from `start` to `end`. Becomes JSON through `to_json` and `from_json`; small, however large
    the data is. Must not be changed: it is not frozen because a round makes hundreds of them."""

    stream: str
    start: Position
    end: Position
    rows: int | None = None  # None if the driver does not know
    last_ts_us: int | None = None  # about the timestamp of the last tuple: a hint that keeps streams in step
    progress_us: int | None = None  # live sources: the watermark; every later tuple has this timestamp or a later one
    ended: bool = False  # the stream has nothing after `end`
    checksum: int | None = None  # of the bytes when a task first read them: a replay must find the same

    def to_json(self) -> dict[str, Any]:
        """Leaves a missing checksum out, as older versions of Kigen wrote it."""
        body: dict[str, Any] = {
            "stream": self.stream,
            "start": self.start,
            "end": self.end,
            "rows": self.rows,
            "last_ts_us": self.last_ts_us,
            "progress_us": self.progress_us,
            "ended": self.ended,
        }
        return body if self.checksum is None else {**body, "checksum": self.checksum}

    def encoded(self) -> str:
        """Returns the JSON as text, as `json.dumps` writes it, at a tenth of the cost."""
        checksum = "" if self.checksum is None else f', "checksum": {self.checksum}'
        return (
            f'{{"stream": {quoted(self.stream)}, "start": {_encoded(self.start)}, "end": {_encoded(self.end)}, '
            f'"rows": {_NULL if self.rows is None else self.rows}, '
            f'"last_ts_us": {_NULL if self.last_ts_us is None else self.last_ts_us}, '
            f'"progress_us": {_NULL if self.progress_us is None else self.progress_us}, '
            f'"ended": {"true" if self.ended else "false"}{checksum}}}'
        )

    @staticmethod
    def from_json(value: dict[str, Any]) -> Range:
        return Range(**value)


def _encoded(position: Position) -> str:
    is_index = len(position) == 1 and "index" in position
    return f'{{"index": {position["index"]}}}' if is_index else json.dumps(position)


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be read, for `ON ERROR INTO`."""

    text: str
    place: str
    reason: str


@dataclass(frozen=True)
class Rows:
    """The rows of a range, in the order of the log. `table` has columns c0, c1, ... in the declared Arrow types, and
    `_ts` (int64 microseconds, never NULL)."""

    table: pa.Table
    skipped: int = 0
    errors: list[str] = field(default_factory=list)  # the first few skipped rows, as text
    bad: tuple[BadRow, ...] = ()  # all skipped rows, if the stream has ON ERROR INTO
    shed: pa.Table | None = None  # the tuples that SHED removed, in the same columns
    arrivals_us: Times | None = None  # live sources: arrival of each tuple; a log's tuples arrive when admitted
    given: StreamInput | None = None  # the input of the task, where the rows themselves carry the watermark
    checksum: int | None = None  # of the bytes read; None: the source has its own checksums, or generates its rows
    unknown: Unknown = field(default_factory=dict)  # fields that the stream does not declare
    missing: Missing = field(default_factory=dict)  # declared columns that files or batches do not have
    partitions: Partitions | None = None  # of a log with partitions, at the end of the range; `table` has `_partition`


def checked(piece: Range, rows: Rows, file: str) -> Rows:
    """Returns the rows if the range still has the bytes that it was first read with; else raises InputError."""
    if piece.checksum is None or rows.checksum == piece.checksum:
        return rows
    raise InputError(
        f"has changed since it was read: {place_of_range(piece)} of stream '{piece.stream}' had checksum "
        f"{piece.checksum:08x}, now it is {rows.checksum or 0:08x}. The state in the checkpoint was computed from the "
        "old bytes, and a restart reads them again. Restore the old file (was it rotated or rewritten?), or start from "
        "the beginning with a new --checkpoint directory",
        file,
    )


def place_of_range(piece: Range) -> str:
    """Describes which part of a file the range is, for messages."""
    start, end = piece.start, piece.end
    if "index" in end:
        return f"records {start['index']} to {end['index']}"
    if "byte" in end:
        first = start["byte"] if start.get("file") == end.get("file") else 0
        return f"bytes {first} to {end['byte']}"
    first = f"{start['group']}, row {start['row']}" if start.get("file") == end.get("file") else "0"
    return f"row group {first} to row group {end.get('group')}, row {end.get('row')}"


def place_text(piece: Range) -> str:
    """Describes where the rows of a range came from: files with bytes or rows, partitions with offsets, or offsets."""
    start, end = piece.start, piece.end
    if "parts" in end:
        return "; ".join(f"{part['file'][0]}: {part['from']} to {part['to']}" for part in end["parts"])
    if "file" in end:
        return f"{end['file']}: {place_of_range(piece)}"
    if "partitions" in end:
        before = start.get("partitions", {})
        moved = {name: at for name, at in end["partitions"].items() if at != before.get(name, 0)}
        return "; ".join(f"{name}: {before.get(name, 0)} to {at}" for name, at in moved.items())
    return f"offsets {start.get('index')} to {end.get('index')}"


class Source(ABC):
    """Reads one stream. Constructed on the driver and again in executors, so `__init__` does no I/O."""

    live: bool = False  # whether tuples appear as time passes (synthetic without --drain)

    @abstractmethod
    def initial(self) -> Position:
        """Returns where the log begins; raises InputError if the input is missing or has a wrong header."""

    @abstractmethod
    def advance(self, position: Position, max_rows: int) -> Range:
        """Returns the next range after `position`, of at most about `max_rows`; empty (`start == end`) if there is none
        now."""

    @abstractmethod
    def read(self, piece: Range) -> Rows: ...

    @abstractmethod
    def fraction(self, position: Position) -> float | None:
        """Returns how much of a finite source lies before `position`, 0..1; None if it is endless."""

    def close(self) -> None:  # noqa: B027 - most sources hold nothing
        """Ends threads and connections. A run closes no source: they end with their process."""


BIRTHS_FROM = "births_from"  # of a position: tuples that are born before this offset are dropped


class LiveSource(Source):
    """A stream whose tuples arrive as time passes. Its offsets count from 0, and a position is {"index": n}. A policy
    admits its tuples, not `advance`."""

    has_shed = False  # whether the log holds only what SHED keeps, and `read` says what was removed (`Rows.shed`)
    step_us = 0.0  # a guess of what a tuple costs a task because time halts at it
    has_watermark_rows = False  # whether some offsets hold watermark or gap rows, not tuples: see `due`

    @abstractmethod
    def arrived_by(self, now_us: int) -> int:
        """Returns how many tuples have arrived."""

    @abstractmethod
    def arrivals_us(self, first: int, end: int) -> Times:
        """Returns when the tuples first..end-1 arrived, in order; `end` is at most `arrived_by`."""

    @abstractmethod
    def complete_us(self, now_us: int) -> int | None:
        """Returns the watermark now: every tuple still to arrive has this timestamp or a later one, except for
        LATENESS."""

    def next_arrival_us(self, known: int, now_us: int) -> int | None:
        """Returns when the tuple at offset `known` arrives: FOREVER if there is none, None if that is not known yet.

        A source that returns a time is not polled before it.
        """
        return None

    def foreseen_us(self, known: int) -> Times:
        """Returns when some tuples from offset `known` on arrive, if that is known long before; none if it is not.

        A source that returns times is asked for many tuples at once, instead of for each one that arrives. `arrived_by`
        must agree with them.
        """
        return _NO_TIMES

    def call_on_news(self, call: Callable[[], None]) -> bool:
        """Asks the source to call whenever something has arrived. Returns False if it cannot: then it is polled all
        the time. The call comes from any thread, after `arrived_by` knows what has arrived."""
        return False

    def completes_at_us(self, watermark_us: int) -> int | None:
        """Returns when `complete_us` reaches the watermark if nothing arrives: FOREVER if it does not, None if that is
        not known. Only asked of a source that knows its next arrival, or calls when it comes (`call_on_news`)."""
        return None

    def progress_before(self, number: int, arrival_us: int) -> int | None:
        """Returns the watermark of a reader that has all tuples before this one, which arrived at `arrival_us`."""
        return arrival_us

    @abstractmethod
    def total(self) -> int | None:
        """Returns how many tuples the stream has in all; None if it is endless, or if that is not known yet."""

    def due(self, first: int, end: int) -> npt.NDArray[np.bool_] | None:
        """Returns which of these offsets have a reader waiting for them; None: all. The others are read together with
        those that follow them, and cost nothing."""
        return None

    def position(self, index: int) -> Position | None:
        """Returns where the log continues at this offset, if the offset alone does not say it. Admission records it
        with the cursor (`at`) and gives it back by `resume`."""
        return None

    def resume(self, positions: Mapping[int, Position | None]) -> None:
        """Continues at the cursors of all tasks: their offsets, and the positions that were recorded with them (None
        before the first batch). Called once, on the driver, before anything is asked."""

    def forget_before(self, index: int) -> None:
        """Frees what the driver knows of the offsets before this one: no task will ask for them."""

    def wants_step(self, at: Position | None) -> bool:
        """Returns whether a task that has read all of the log, up to the recorded position `at`, should run without
        tuples, because the silence of the log moves its watermark."""
        return False

    def piece(self, name: str, first: int, end: int, progress_us: int | None, ended: bool) -> Range:
        return Range(name, {"index": first}, {"index": end}, rows=end - first, progress_us=progress_us, ended=ended)
