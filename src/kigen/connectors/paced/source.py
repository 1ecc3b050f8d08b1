"""Reads `FROM csv (path = ..., pace = 1, pace_from = TIME)`: recorded files as a live stream, at n times their speed.

A row arrives at the start of the run plus (timestamp - pace_from) / pace; what lies before `pace_from` is there at
once. Without it, the first timestamp counts. Invariant: arrivals follow from the files and the recorded start of the
run, so a restart and every worker compute the same; they never go back. Cost: the driver reads each row once, to know
its time; a worker reads a chunk once while ranges pass through it.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.connectors.bad_rows import KEPT
from kigen.connectors.casting import iso_us, with_ts
from kigen.connectors.options import number
from kigen.connectors.source_base import LiveSource, Position, Range, Rows, Source, Times, checked, place_of_range
from kigen.connectors.values.missing_columns import merged_missing
from kigen.connectors.values.unknown_fields import merged
from kigen.lifetimes.blocks import FOREVER
from kigen.plan.logical import SourceStream

CHUNK_ROWS = 1024
AHEAD_ROWS = 1 << 19  # rows that the driver knows beyond those that admission has asked for
_KEPT_CHUNKS = 8


@dataclass(frozen=True)
class _Chunk:
    """A range of the recorded files: the offset of its first row, and when its rows arrive."""

    first: int
    piece: Range
    floor_us: int  # no row arrives earlier
    arrivals_us: Times

    @property
    def end(self) -> int:
        return self.first + len(self.arrivals_us)


class PacedSource(LiveSource):
    """A live stream of recorded files, which `files` reads."""

    live = True

    def __init__(self, stream: SourceStream, files: Source, start_us: int | None) -> None:
        owner = f"stream '{stream.name}'"
        self.stream, self._files, self._start_us = stream, files, start_us or 0
        self._pace = number(owner, "pace", stream.source.option("pace"))
        given = stream.source.option("pace_from")
        self._from_us = None if given is None else iso_us(str(given))
        self._chunks: list[_Chunk] = []
        self._begin: Position | None = None  # where the first chunk begins
        self._first = 0  # its offset
        self._floor_us = self._start_us
        self._ended, self._asked = False, 0
        self._read: OrderedDict[str, Rows] = OrderedDict()

    def initial(self) -> Position:
        self._files.initial()
        return {"index": 0}

    def advance(self, position: Position, max_rows: int) -> Range:
        raise TypeError("a live stream is admitted by a policy")

    def fraction(self, position: Position) -> float | None:
        return None if "pos" not in position else self._files.fraction(position["pos"])

    # --- on the driver -----------------------------------------------------------------------------------------------

    def resume(self, positions: Mapping[int, Position | None]) -> None:
        index = min(positions, default=0)
        at = positions.get(index)
        if at is not None and "pos" in at:
            self._begin, self._first, self._floor_us = at["pos"], index - int(at["skip"]), int(at["floor"])
            self._from_us, self._asked = int(at["base"]), index

    @property
    def _known(self) -> int:
        return self._chunks[-1].end if self._chunks else self._first

    def _look_ahead(self, now_us: int) -> None:
        """Reads on until a row arrives after now, or enough rows are known."""
        while not self._ended and self._known - self._asked < AHEAD_ROWS:
            last = self._chunks[-1] if self._chunks else None
            if last is not None and len(last.arrivals_us) and last.arrivals_us[-1] > now_us:
                return
            if self._begin is None:
                self._begin = self._files.initial()
            piece = self._files.advance(self._begin if last is None else last.piece.end, CHUNK_ROWS)
            self._ended = piece.ended
            if piece.start == piece.end:
                return
            ts = _times(self._files.read(piece))
            if self._from_us is None and len(ts):
                self._from_us = int(ts[0])
            arrivals = self._arrivals(ts, self._from_us or 0, self._floor_us)
            self._chunks.append(_Chunk(self._known, piece, self._floor_us, arrivals))
            self._floor_us = int(arrivals[-1]) if len(arrivals) else self._floor_us

    def _arrivals(self, ts: Times, base_us: int, floor_us: int) -> Times:
        due = self._start_us + np.maximum(0, (ts - base_us) / self._pace).astype(np.int64)
        return np.asarray(np.maximum.accumulate(np.maximum(due, floor_us)), np.int64)

    def arrived_by(self, now_us: int) -> int:
        self._look_ahead(now_us)
        at = bisect_right(self._chunks, now_us, key=lambda c: c.floor_us)
        return max(
            (
                c.first + int(c.arrivals_us.searchsorted(now_us, side="right"))
                for c in self._chunks[max(0, at - 1) : at]
            ),
            default=self._first,
        )

    def arrivals_us(self, first: int, end: int) -> Times:
        self._asked = max(self._asked, end)
        parts = [c.arrivals_us[max(0, first - c.first) : end - c.first] for c in self._over(first, end)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _over(self, first: int, end: int) -> list[_Chunk]:
        low = bisect_right(self._chunks, first, key=lambda c: c.end)
        return [c for c in self._chunks[low:] if c.first < end]

    def next_arrival_us(self, known: int, now_us: int) -> int | None:
        self._look_ahead(now_us)
        chunk = next(iter(self._over(known, known + 1)), None)
        if chunk is not None:
            return int(chunk.arrivals_us[known - chunk.first])
        return FOREVER if self._ended else None

    def complete_us(self, now_us: int) -> int | None:
        return None  # the timestamps say it, and LATENESS

    def progress_before(self, number: int, arrival_us: int) -> int | None:
        return None

    def total(self) -> int | None:
        return self._known if self._ended else None

    def position(self, index: int) -> Position | None:
        chunk = next(iter(self._over(index, index + 1)), None)
        if chunk is not None:
            pos, skip, floor_us = chunk.piece.start, index - chunk.first, chunk.floor_us
        elif self._chunks:
            pos, skip, floor_us = self._chunks[-1].piece.end, 0, self._floor_us
        else:
            return None
        return {"index": index, "pos": pos, "skip": skip, "floor": floor_us, "base": self._from_us or 0}

    def forget_before(self, index: int) -> None:
        keep = max(0, bisect_right(self._chunks, index, key=lambda c: c.end) - 1)
        if keep:
            self._first, self._begin = self._chunks[keep].first, self._chunks[keep].piece.start
            del self._chunks[:keep]

    def piece(self, name: str, first: int, end: int, progress_us: int | None, ended: bool) -> Range:
        chunks = [
            [c.piece.to_json(), max(0, first - c.first), min(c.end, end) - c.first, c.floor_us]
            for c in self._over(first, end)
        ]
        stop = {**(self.position(end) or {"index": end}), **({"chunks": chunks} if chunks else {})}
        return Range(name, {"index": first}, stop, rows=end - first, progress_us=progress_us, ended=ended)

    # --- in workers --------------------------------------------------------------------------------------------------

    def read(self, piece: Range) -> Rows:
        chunks = piece.end.get("chunks", [])
        if not chunks:
            columns = [pa.chunked_array([], c.type.arrow) for c in self.stream.schema]
            return Rows(with_ts(columns, self.stream.schema, self.stream.timestamp), arrivals_us=np.zeros(0, np.int64))
        read = [self._part(int(piece.end["base"]), *chunk) for chunk in chunks]
        checksum = zlib.crc32("".join(f"{rows.checksum or 0:08x}" for rows in read).encode())
        found = Rows(
            pa.concat_tables([rows.table for rows in read]),
            sum(rows.skipped for rows in read),
            [error for rows in read for error in rows.errors][:KEPT],
            tuple(row for rows in read for row in rows.bad),
            arrivals_us=np.concatenate([rows.arrivals_us for rows in read if rows.arrivals_us is not None]),
            checksum=checksum,
            unknown=merged(rows.unknown for rows in read),
            missing=merged_missing(rows.missing for rows in read),
        )
        last = Range.from_json(chunks[-1][0])
        return checked(piece, found, f"{last.end.get('file')} ({place_of_range(last)})")

    def _part(self, base_us: int, recorded: dict[str, Any], low: int, high: int, floor_us: int) -> Rows:
        """Returns rows of a chunk. Its bad rows count with its first row."""
        chunk = Range.from_json(recorded)
        key = f"{chunk.start} {chunk.end}"
        if key not in self._read:
            self._read[key] = self._files.read(chunk)
            if len(self._read) > _KEPT_CHUNKS:
                self._read.popitem(last=False)
        rows = self._read[key]
        arrivals = self._arrivals(_times(rows), base_us, floor_us)
        part = replace(rows, table=rows.table.slice(low, high - low), arrivals_us=arrivals[low:high])
        return part if low == 0 else replace(part, skipped=0, errors=[], bad=(), unknown={}, missing={})


def _times(rows: Rows) -> Times:
    return np.asarray(rows.table.column("_ts").to_numpy(), np.int64)
