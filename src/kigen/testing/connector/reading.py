"""Reads a source range by range, as a run does: the driver hands out ranges, and another object reads them.

Invariant: everything that passes between driver and worker goes through JSON, as it does in a run. A finite source and
a live one are read by the same loop.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kigen.connectors import LiveSource, Position, Range, Rows, Source, open_source
from kigen.testing.connector.cases import SourceCase, require

WAIT_S = 30.0  # for rows of a live source
_QUIET_S = 0.1  # a live source that has given all its rows must not give more
ALL = 1 << 40
Place = tuple[int, Position | None]  # of a live source: offset and recorded position; else 0 and the position


@dataclass
class Reading:
    """What was read: the ranges, where a reader continues after each, and the rows of each."""

    pieces: list[Range] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    rows: list[Rows] = field(default_factory=list)

    def until(self, count: int) -> Reading:
        """Returns what the first ranges gave."""
        return Reading(self.pieces[:count], self.places[:count], self.rows[:count])

    @property
    def table(self) -> pa.Table:
        return pa.concat_tables([rows.table for rows in self.rows])

    @property
    def values(self) -> list[tuple[Any, ...]]:
        """All rows, in the order in which they were read."""
        table = self.table
        names = [name for name in table.column_names if name.startswith("c")]
        columns = [table.column(name).to_pylist() for name in names]
        return list(zip(*columns, strict=True))

    @property
    def skipped(self) -> int:
        return sum(rows.skipped for rows in self.rows)

    @property
    def is_partitioned(self) -> bool:
        return "_partition" in self.table.column_names


class Reader:
    """Reads the stream of a case, each time with a source of its own, as a new process does."""

    def __init__(self, case: SourceCase, clause: str = "") -> None:
        self.case, self.stream = case, case.stream(clause)

    def opened(self) -> Source:
        """Opens the source anew, as every process of a run does."""
        checkpoint = None if self.case.checkpoint is None else str(self.case.checkpoint)
        return open_source(self.stream, str(self.case.directory), not self.case.live, self.case.started_us, checkpoint)

    def read(self, size: int, begin: Place | None = None, already: Reading | None = None) -> Reading:
        """Reads all that is left, in ranges of about `size` rows, from a position on, or from the beginning.

        `already` is what was read before: a live source is done when it has given all rows of the case.
        """
        source = self.opened()
        found = Reading()
        before = already or Reading()
        live = self.case.live and isinstance(source, LiveSource)
        pieces = self._live(source, size, begin, found, before) if live else self._finite(source, size, begin)
        with closing(source), closing(self.opened()) as worker:
            for piece, place in pieces:
                found.pieces.append(piece)
                found.places.append(place)
                found.rows.append(worker.read(piece))
            if not found.rows:
                at = _through_json(source.initial() if begin is None else begin[1] or {"index": begin[0]})
                found.rows.append(worker.read(Range(self.stream.name, at, at, rows=0)))
        return found

    def _finite(self, source: Source, size: int, begin: Place | None) -> Iterator[tuple[Range, Place]]:
        position: Position = _through_json(source.initial() if begin is None else begin[1])
        while True:
            piece = _piece(source.advance(position, size))
            where = f"source of stream '{self.stream.name}': advance({position}, {size})"
            require(piece.start == position, f"{where} gives a range that starts at {piece.start}")
            if piece.start == piece.end:
                require(piece.ended, f"{where} gives an empty range that is not the end, of an input that is complete")
                return
            yield piece, (0, piece.end)
            position = piece.end
            if piece.ended:
                rest = source.advance(position, size)
                require(
                    rest.ended and rest.start == rest.end,
                    f"{where} said that the input ends at {position}, but gives {rest.end} after it",
                )
                return

    def _live(
        self, source: Any, size: int, begin: Place | None, found: Reading, before: Reading
    ) -> Iterator[tuple[Range, Place]]:
        first, at = (0, source.initial()) if begin is None else begin
        source.resume({first: _through_json(at)})
        total = source.total()
        until, quiet = time.monotonic() + WAIT_S, 0.0
        while total is None or first < total:
            known = source.arrived_by(time.time_ns() // 1000)
            require(known >= first, f"source of stream '{self.stream.name}': arrived_by went back to {known}")
            if known > first:
                end = min(known, first + size)
                at = _through_json(source.position(end))
                yield _piece(source.piece(self.stream.name, first, end, None, False)), (end, at)
                first, quiet = end, 0.0
                continue
            if total is None and self._has_all(found, before):
                quiet = quiet or time.monotonic() + _QUIET_S
                if time.monotonic() > quiet:
                    return
            elif time.monotonic() > until:
                return  # the checks say what is missing
            time.sleep(0.005)

    def _has_all(self, found: Reading, before: Reading) -> bool:
        wanted = len(self.case.rows or ()) + len(self.case.bad)
        got: int = sum(rows.table.num_rows + rows.skipped for rows in (*before.rows, *found.rows))
        return got >= wanted


def _piece(piece: Range) -> Range:
    return Range.from_json(_through_json(piece.to_json()))


def _through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))
