"""The reader of the data source: a process of its own on the driver, which does admission (kigen.spark.admission).

A row is (task, bucket, seq, payload): one for each task that the batch concerns, the payload a JSON list of references to its input.
No tuple passes here; workers read the ranges themselves (docs/decisions/002).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from kigen.connectors import Source
from kigen.spark.admission import Clock, Offset, check_format, initial_offset, log_budget, next_offset, ranges_between
from kigen.spark.scratch import Scratch
from kigen.spark.spec import RunSpec

Row = tuple[str, int, int, str]


class AdmissionReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Executors construct it too, to replay a batch after a restart: no side effects before the first call."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._sources: dict[str, Source] | None = None
        self._lateness_us = {stream.name: stream.lateness_us for stream in spec.app.streams}
        self._scratch = Scratch(spec.scratch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing to fix: a finite log says itself where it ends."""

    def initialOffset(self) -> Offset:  # noqa: N802
        """Live streams begin here: Spark is up, and the first batch comes next."""
        with self._scratch.telling_errors():
            started_us = _now_us()
            return initial_offset(self._open(started_us), started_us)

    def read(self, start: Offset) -> tuple[Iterator[Row], Offset]:
        with self._scratch.telling_errors():
            end = self._warm(start) if self._spec.warm_up else self._admit(start)
            return self.readBetweenOffsets(start, end), end

    def _admit(self, start: Offset) -> Offset:
        check_format(start)
        clock = Clock(_now_us(), self._scratch.next_event_us(), self._lateness_us, self._scratch.closing)
        rows = log_budget(start, self._spec.batch_rows, self._spec.largest_rows, clock.now_us)
        return next_offset(self._open(start["started_us"]), start, rows, clock)

    def _warm(self, start: Offset) -> Offset:
        return {**start, "seq": 1}

    def _open(self, started_us: int) -> dict[str, Source]:
        if self._sources is None:
            self._sources = self._spec.sources(started_us)
        return self._sources

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[Row]:  # noqa: N802
        return iter(list(_rows(self._spec, start, end)))  # a list's iterator: Spark copies it


def _rows(spec: RunSpec, start: Offset, end: Offset) -> Iterator[Row]:
    pieces = [piece.to_json() for piece in ranges_between(start, end)]
    for task in spec.tasks:
        mine = [piece for piece in pieces if piece["stream"] in task.streams]
        if mine or (spec.warm_up and end != start):
            payload: dict[str, Any] = {"started_us": end["started_us"], "admitted_us": end["admitted_us"], "ranges": mine}
            yield task.name, 0, end["seq"], json.dumps(payload)


def _now_us() -> int:
    return time.time_ns() // 1000
