"""What a connector is: a replayable log that gives ranges on the driver and tables in the executors; and where results
go.

Invariant: `read` of the same range gives the same table, always and anywhere; a position is plain JSON and is recorded
in Spark's offset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kigen.lifetimes import StreamInput

Times = npt.NDArray[np.int64]
Position = dict[str, Any]  # JSON


class InputError(ValueError):
    """Input that cannot be read: ends the run with exit code 1. Carries the place; survives pickling through Spark."""

    def __init__(
        self, message: str, file: str | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(message, file, line, field)
        self.message, self.file, self.line, self.field = message, file, line, field

    def __str__(self) -> str:
        place = ":".join(str(p) for p in (self.file, self.line) if p is not None)
        named = f" field '{self.field}':" if self.field else ""
        return f"{place}:{named} {self.message}" if place else self.message


@dataclass(frozen=True)
class Range:
    """A piece of one stream, from `start` to `end`. JSON through `to_json`/`from_json`; small, whatever the data's
    size."""

    stream: str
    start: Position
    end: Position
    rows: int | None = None  # as far as the driver knows
    last_ts_us: int | None = None  # timestamp of about the last tuple, for keeping streams in step; a hint only
    progress_us: int | None = None  # live sources: every later tuple has a timestamp >= this
    ended: bool = False  # the stream holds nothing after `end`
    checksum: int | None = None  # of what was read when a task first took it in: a replay must find the same

    def to_json(self) -> dict[str, Any]:
        """Without a checksum, as older Kigens wrote it."""
        return {name: value for name, value in self.__dict__.items() if name != "checksum" or value is not None}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Range:
        return Range(**value)


@dataclass(frozen=True)
class Rows:
    """`table`: columns c0, c1, ... in the declared Arrow types, and `_ts` (int64 microseconds, never NULL); in the
    order of the log."""

    table: pa.Table
    skipped: int = 0
    errors: list[str] = field(default_factory=list)  # the first few skipped rows, as text
    shed: pa.Table | None = None  # what SHED let go, in the same columns
    arrivals_us: Times | None = (
        None  # live sources: when each tuple arrived; a log's tuples arrive when they are admitted
    )
    given: StreamInput | None = None  # what a task takes in, where the rows themselves tell how far time has come
    checksum: int | None = (
        None  # of the bytes that were read; None: the source keeps checksums of its own, or makes its rows up
    )


def checked(piece: Range, rows: Rows, file: str) -> Rows:
    """The rows, if they are made of the bytes that the range was first read with. Raises InputError."""
    if piece.checksum is None or rows.checksum == piece.checksum:
        return rows
    raise InputError(
        f"has changed since it was read: {place_of_range(piece)} of stream '{piece.stream}' had checksum "
        f"{piece.checksum:08x}, now it is "
        f"{rows.checksum or 0:08x}. The state in the checkpoint is made of the old bytes, which a restart reads "
        "again. Put the old file "
        f"back (was it rotated or rewritten?), or start from the beginning with a new --checkpoint directory",
        file,
    )


def place_of_range(piece: Range) -> str:
    """Which part of a file it is, for people."""
    start, end = piece.start, piece.end
    if "byte" in end:
        first = start["byte"] if start.get("file") == end.get("file") else 0
        return f"bytes {first} to {end['byte']}"
    first = f"{start['group']}, row {start['row']}" if start.get("file") == end.get("file") else "0"
    return f"row group {first} to row group {end.get('group')}, row {end.get('row')}"


class Source(ABC):
    """One stream's connector. Constructed on the driver and again in executors: no I/O in `__init__`."""

    live: bool = False  # True: tuples appear as time passes (synthetic without --drain)

    @abstractmethod
    def initial(self) -> Position:
        """Where the log begins. Raises InputError if the input is missing or has a wrong header."""

    @abstractmethod
    def advance(self, position: Position, max_rows: int) -> Range:
        """The next range after `position`, about `max_rows` at most; empty (`start == end`) when there is none now."""

    @abstractmethod
    def read(self, piece: Range) -> Rows: ...

    @abstractmethod
    def fraction(self, position: Position) -> float | None:
        """How much of a finite source lies before `position`, 0..1; None if endless."""


class LiveSource(Source):
    """A stream whose tuples arrive as time passes: numbered from 0, positions are {"index": n}; admitted by a policy,
    not by `advance`."""

    marked = False  # some of its numbers are no tuples: `due` tells them

    @abstractmethod
    def arrived_by(self, now_us: int) -> int:
        """How many tuples have arrived."""

    @abstractmethod
    def arrivals_us(self, first: int, end: int) -> Times:
        """When they arrived, in order; `end` is at most `arrived_by`."""

    @abstractmethod
    def complete_us(self, now_us: int) -> int | None:
        """Every tuple that has not arrived by now has this timestamp or a later one, but for the allowed lateness."""

    def progress_before(self, number: int, arrival_us: int) -> int | None:
        """The same, for whoever has all tuples before this one, which arrived then."""
        return arrival_us

    @abstractmethod
    def total(self) -> int | None:
        """How many tuples the stream has in all; None if endless, or not known yet."""

    def due(self, first: int, end: int) -> npt.NDArray[np.bool_] | None:
        """Which of them somebody waits for; None: all. The others are read with whatever follows them, and cost
        nothing."""
        return None

    def piece(self, name: str, first: int, end: int, progress_us: int | None, ended: bool) -> Range:
        return Range(name, {"index": first}, {"index": end}, rows=end - first, progress_us=progress_us, ended=ended)
