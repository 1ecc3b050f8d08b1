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

from kigen.spark.admission import Clock, Offset, initial_offset, next_offset, ranges_between
from kigen.spark.scratch import Scratch
from kigen.spark.spec import RunSpec

Row = tuple[str, int, int, str]


class AdmissionReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Executors construct it too, to replay a batch after a restart: no side effects before the first call."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._sources = spec.sources()
        self._lateness_us = {stream.name: stream.lateness_us for stream in spec.app.streams}
        self._scratch = Scratch(spec.scratch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing to fix: a finite log says itself where it ends."""

    def initialOffset(self) -> Offset:  # noqa: N802
        with self._scratch.telling_errors():
            return initial_offset(self._sources)

    def read(self, start: Offset) -> tuple[Iterator[Row], Offset]:
        with self._scratch.telling_errors():
            clock = Clock(time.time_ns() // 1000, self._scratch.next_event_us(), self._lateness_us, self._scratch.closing)
            end = next_offset(self._sources, start, self._spec.batch_rows, clock)
            return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[Row]:  # noqa: N802
        return iter(list(_rows(self._spec, start, end)))  # a list's iterator: Spark copies it


def _rows(spec: RunSpec, start: Offset, end: Offset) -> Iterator[Row]:
    pieces = [piece.to_json() for piece in ranges_between(start, end)]
    for task in spec.tasks:
        mine = [piece for piece in pieces if piece["stream"] in task.streams]
        if mine:
            payload: dict[str, Any] = {"admitted_us": end["admitted_us"], "ranges": mine}
            yield task.name, 0, end["seq"], json.dumps(payload)
