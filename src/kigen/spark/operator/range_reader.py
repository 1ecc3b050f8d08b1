"""Reads ranges in a worker. Tasks that read the same stream in the same worker share the work through a cache."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kigen.connectors import LiveSource, Range, Rows, Source
from kigen.connectors.ahead import without_far
from kigen.connectors.source_base import Times
from kigen.plan.logical import SourceStream
from kigen.spark.admission.shedding import Shedding, kept_arrivals
from kigen.spark.spec import RunSpec

_KEPT_ROWS, _KEPT_RANGES = 2_000_000, 64

# (run, stream) -> source. Sources are kept because they learn as they read, for example the length of a row.
_SOURCES: dict[tuple[str, str], Source] = {}
_SHEDDING: dict[tuple[str, str], Shedding] = {}
_READ: OrderedDict[tuple[str, str], Rows] = OrderedDict()  # (run, range as JSON)


def clear_read_ranges() -> None:
    """Empties the cache to free memory. A range that is needed again is read again."""
    _READ.clear()


class RangeReader:
    """Reads the ranges of a run."""

    def __init__(self, spec: RunSpec, started_us: int) -> None:
        self._spec, self._started_us = spec, started_us
        for stale in [key for key in _SOURCES if key[0] != spec.run_id]:
            del _SOURCES[stale]
        for gone in [key for key in _SHEDDING if key[0] != spec.run_id]:
            del _SHEDDING[gone]
        for old in [key for key in _READ if key[0] != spec.run_id]:
            del _READ[old]

    def ranges(self, pieces: list[dict[str, Any]]) -> list[tuple[Range, Rows]]:
        return [(Range.from_json(piece), self._rows(piece)) for piece in pieces]

    def _rows(self, piece: dict[str, Any]) -> Rows:
        key = self._spec.run_id, json.dumps(piece)
        if key not in _READ:
            _READ[key] = self._read(Range.from_json(piece))
            while len(_READ) > 1 and (
                len(_READ) > _KEPT_RANGES or sum(rows.table.num_rows for rows in _READ.values()) > _KEPT_ROWS
            ):
                _READ.popitem(last=False)
        return _READ[key]

    def arrivals_us(self, stream: str, first: int, end: int) -> Times:
        """Returns the arrival times of a range, without the tuples that SHED removes."""
        source = self._source(stream)
        assert isinstance(source, LiveSource)
        declared, key = self._spec.app.stream(stream), (self._spec.run_id, stream)
        shedding = None if declared.shed is None else _SHEDDING.setdefault(key, Shedding(declared, source))
        return kept_arrivals(source, shedding, first, end)[1]

    def shed_of(self, stream: str, first: int, end: int) -> pa.Table | None:
        """Returns what SHED removes from a range that a task skips, without what the policy made the task skip."""
        source = self._source(stream)
        assert isinstance(source, LiveSource)
        return self._read(source.piece(stream, first, end, None, False)).shed

    def _read(self, piece: Range) -> Rows:
        source = self._source(piece.stream)
        rows = source.read(piece)
        stream = self._spec.app.stream(piece.stream)
        return without_far(self._kept(piece, source, stream, rows), stream, source)

    def _kept(self, piece: Range, source: Source, stream: SourceStream, rows: Rows) -> Rows:
        """Removes what SHED does not keep."""
        if stream.shed is None or not isinstance(source, LiveSource) or not source.live or not rows.table.num_rows:
            return rows
        key = self._spec.run_id, piece.stream
        shedding = _SHEDDING.setdefault(key, Shedding(stream, source))
        kept_mask = shedding.keeps(int(piece.start["index"]), int(piece.end["index"]))
        arrivals = None if rows.arrivals_us is None else rows.arrivals_us[kept_mask]
        kept, gone = rows.table.filter(pa.array(kept_mask)), rows.table.filter(pa.array(~kept_mask))
        return replace(rows, table=kept, shed=gone, arrivals_us=arrivals)

    def _source(self, stream: str) -> Source:
        key = self._spec.run_id, stream
        if key not in _SOURCES:
            _SOURCES[key] = self._spec.source(stream, self._started_us)
        return _SOURCES[key]
