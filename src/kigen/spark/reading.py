"""Reading ranges in a worker: tasks that read the same stream share the work, as long as they run in the same worker."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

from kigen.connectors import Range, Rows, Source
from kigen.spark.spec import RunSpec

_KEPT_ROWS = 2_000_000

_SOURCES: dict[tuple[str, str], Source] = {}  # (run, stream): sources learn as they read (the length of a row), so they are kept
_READ: OrderedDict[tuple[str, str], Rows] = OrderedDict()  # (run, range as JSON)


class Reading:
    def __init__(self, spec: RunSpec, started_us: int) -> None:
        self._spec, self._started_us = spec, started_us
        for stale in [key for key in _SOURCES if key[0] != spec.run_id]:
            del _SOURCES[stale]
        for old in [key for key in _READ if key[0] != spec.run_id]:
            del _READ[old]

    def ranges(self, pieces: list[dict[str, Any]]) -> list[tuple[Range, Rows]]:
        return [(Range.from_json(piece), self._rows(piece)) for piece in pieces]

    def _rows(self, piece: dict[str, Any]) -> Rows:
        key = self._spec.run_id, json.dumps(piece)
        if key not in _READ:
            _READ[key] = self._source(piece["stream"]).read(Range.from_json(piece))
            while len(_READ) > 1 and sum(rows.table.num_rows for rows in _READ.values()) > _KEPT_ROWS:
                _READ.popitem(last=False)
        return _READ[key]

    def _source(self, stream: str) -> Source:
        key = self._spec.run_id, stream
        if key not in _SOURCES:
            _SOURCES[key] = self._spec.source(stream, self._started_us)
        return _SOURCES[key]
