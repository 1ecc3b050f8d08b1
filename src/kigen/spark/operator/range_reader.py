"""Reads ranges in a worker. Tasks that read the same stream share the work through a cache, if they share a worker."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.connectors import LiveSource, Range, Rows, Source
from kigen.connectors.ahead import without_far
from kigen.connectors.source_base import Times
from kigen.plan.logical import SourceStream
from kigen.spark.admission.shedding import Shedding, kept_arrivals, shedding_of
from kigen.spark.spec import RunSpec

_KEPT_ROWS, _KEPT_RANGES = 2_000_000, 64

# (run, stream) -> source. Sources are kept because they learn as they read, for example the length of a row.
_SOURCES: dict[tuple[str, str, int], Source] = {}
_SHEDDING: dict[tuple[str, str], Shedding | None] = {}
_READ: OrderedDict[tuple[str, str], Rows] = OrderedDict()  # (run, range as JSON)
_KEPT = [0]  # tuples in `_READ`


def clear_read_ranges() -> None:
    """Empties the cache to free memory. A range that is needed again is read again."""
    _READ.clear()
    _KEPT[0] = 0


class RangeReader:
    """Reads the ranges of a run."""

    def __init__(self, spec: RunSpec, started_us: int) -> None:
        self._spec, self.started_us = spec, started_us  # when live streams began
        readers = Counter(stream for task in spec.tasks for stream in task.streams)
        self._shared = {stream for stream, tasks in readers.items() if tasks > 1}
        for stale in [key for key in _SOURCES if key[0] != spec.run_id]:
            del _SOURCES[stale]
        for gone in [key for key in _SHEDDING if key[0] != spec.run_id]:
            del _SHEDDING[gone]
        if any(key[0] != spec.run_id for key in _READ):
            clear_read_ranges()

    def ranges(self, pieces: list[dict[str, Any]]) -> list[tuple[Range, Rows]]:
        return [(Range.from_json(piece), self._rows(piece)) for piece in pieces]

    def _rows(self, piece: dict[str, Any]) -> Rows:
        if piece["stream"] not in self._shared:
            return self._read(Range.from_json(piece))
        key = self._spec.run_id, json.dumps(piece)
        if key not in _READ:
            found = _READ[key] = self._read(Range.from_json(piece))
            _KEPT[0] += found.table.num_rows
            while len(_READ) > 1 and (len(_READ) > _KEPT_RANGES or _KEPT[0] > _KEPT_ROWS):
                _KEPT[0] -= _READ.popitem(last=False)[1].table.num_rows
        return _READ[key]

    def arrivals_us(self, stream: str, first: int, end: int) -> Times:
        """Returns the arrival times of a range, without the tuples that SHED removes."""
        source = self._source(stream)
        assert isinstance(source, LiveSource)
        return kept_arrivals(source, self._shedding(self._spec.app.stream(stream), source), first, end)[1]

    def has_shed(self, stream: str) -> bool:
        source = self._source(stream)
        return isinstance(source, LiveSource) and source.has_shed

    def shed_of(self, stream: str, first: int, end: int) -> pa.Table | None:
        """Returns what SHED removes from a range that a task skips, without what the policy made the task skip."""
        source = self._source(stream)
        assert isinstance(source, LiveSource)
        return self._read(source.piece(stream, first, end, None, False)).shed

    def _read(self, piece: Range) -> Rows:
        source = self._source(piece.stream)
        rows = source.read(piece)
        stream = self._spec.app.stream(piece.stream)
        return _since(without_far(self._kept(piece, source, stream, rows), stream, source), stream.since_us)

    def _kept(self, piece: Range, source: Source, stream: SourceStream, rows: Rows) -> Rows:
        """Removes what SHED does not keep."""
        if stream.shed is None or not isinstance(source, LiveSource) or not source.live or not rows.table.num_rows:
            return rows
        shedding = self._shedding(stream, source)
        if shedding is None:
            return rows
        kept_mask = shedding.keeps(int(piece.start["index"]), int(piece.end["index"]))
        arrivals = None if rows.arrivals_us is None else rows.arrivals_us[kept_mask]
        kept, gone = rows.table.filter(pa.array(kept_mask)), rows.table.filter(pa.array(~kept_mask))
        return replace(rows, table=kept, shed=gone, arrivals_us=arrivals)

    def _shedding(self, stream: SourceStream, source: LiveSource) -> Shedding | None:
        key = self._spec.run_id, stream.name
        if key not in _SHEDDING:
            _SHEDDING[key] = shedding_of(stream, source)
        return _SHEDDING[key]

    def _source(self, stream: str) -> Source:
        key = self._spec.run_id, stream, self.started_us
        if key not in _SOURCES:
            _SOURCES[key] = self._spec.source(stream, self.started_us)
        return _SOURCES[key]


def _since(rows: Rows, since_us: int | None) -> Rows:
    """Leaves out the tuples before the time from which a stream is replayed."""
    if since_us is None or not rows.table.num_rows:
        return rows
    kept = np.asarray(rows.table.column("_ts"), np.int64) >= since_us
    if kept.all():
        return rows
    arrivals = None if rows.arrivals_us is None else rows.arrivals_us[kept]
    return replace(rows, table=rows.table.filter(pa.array(kept)), arrivals_us=arrivals)
