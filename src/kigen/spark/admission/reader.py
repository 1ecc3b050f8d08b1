"""Implements the reader of the data source: a process of its own on the driver, which does admission
(kigen.spark.admission.offsets).

It produces rows (task, bucket, seq, payload), one for each task in the batch. The payload is JSON and refers to the
input of the task. No tuple passes through the reader: workers read the ranges themselves (docs/decisions/002).
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from kigen.connectors import LiveSource, Source
from kigen.schedule.slices import ADMITTED_NAMES
from kigen.spark.admission.changed_tasks import fitted
from kigen.spark.admission.epoch_server import EpochServer
from kigen.spark.admission.offsets import Json, LiveDecision, Offset, batch_of, initial_offset, log_budget, next_offset
from kigen.spark.admission.scheduling import Scheduling
from kigen.spark.admission.slice_scheduling import SliceScheduling
from kigen.spark.operator.buckets import bucket_of
from kigen.spark.rounds import round_log
from kigen.spark.rounds.round_log import first_offset, save_first_offset
from kigen.spark.scratch import Scratch
from kigen.spark.spec import RunSpec

_REPORT_US = 200_000  # how often the command gets a report of what waits
Row = tuple[str, int, int, str]


class AdmissionReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Decides what each batch contains.

    Executors also construct it, to replay a batch after a restart. So it has no side effects before the first call.
    """

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._sources: dict[str, Source] | None = None
        self._scheduling: Scheduling | None = None
        self._reported_us = 0
        self._reading = False
        self._scratch = Scratch(spec.scratch)
        self._server: EpochServer | None = None  # of a run in epochs

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Does nothing: a finite log itself says where it ends."""

    def initialOffset(self) -> Json:  # noqa: N802
        """Returns the offset of a new run. Live streams begin now: Spark is up, and the first batch comes next."""
        with self._scratch.recording_errors():
            if self._spec.lanes and (known := first_offset(self._spec.checkpoint)) is not None:
                return known  # killed in its first epoch: streams still count from the first start
            started_us = _now_us()
            counts = {task: len(slices.queries) for task, slices in self._spec.slices.items()}
            offset = initial_offset(self._open(started_us), self._spec.tasks, started_us, counts).to_json()
            if self._spec.lanes:
                save_first_offset(self._spec.checkpoint, offset, self._spec.syncs)
            return offset

    def read(self, start: Json) -> tuple[Iterator[Row], Json]:
        """Returns the rows of the next batch, and the offset after it."""
        with self._scratch.recording_errors():
            before = fitted(Offset.from_json(start), self._spec)
            after = replace(before, seq=1) if self._spec.warm_up else self._admit(before)
            return self._rows(before, after), start if after is before else after.to_json()

    def _admit(self, start: Offset) -> Offset:
        if not self._reading:
            self._scratch.start_reading()
            self._reading = True
        if self._spec.lanes:
            return self._epoch(start)
        if self._scratch.stopping:
            return start
        now_us, closing = _now_us(), self._scratch.closing
        sources = self._open(start.started_us)
        logs = {name: source for name, source in sources.items() if not source.live}
        live = self._live(start, now_us, closing) if start.queues else None
        budget = log_budget(start, self._spec.batch_rows, self._spec.largest_rows, now_us, self._spec.shortest_us)
        end = next_offset(start, logs, budget, now_us, live, closing)
        if end is not start and self._scheduling is not None and now_us - self._reported_us > _REPORT_US:
            self._scratch.set_policy_report(self._scheduling.report())
            self._reported_us = now_us
        return end

    def _epoch(self, start: Offset) -> Offset:
        """Begins the next epoch, unless the run stops or all streams have ended."""
        if self._server is None:
            self._server = EpochServer(self._spec, self._scratch)
            gc.freeze()  # imported objects are never freed: a collection that visits them holds up all lanes
        if self._server.is_ahead:
            return self._server.begin(start)  # lanes wait for Spark to end it, also if all streams have ended in it
        if self._scratch.stopping and not round_log.is_begun(self._spec.checkpoint, start.seq + 1):
            return start  # an epoch that an earlier process has begun is finished first
        return start if self._server.over else self._server.begin(start)

    def _live(self, start: Offset, now_us: int, closing: bool) -> LiveDecision:
        queues = {task: {stream: dict(at) for stream, at in streams.items()} for task, streams in start.queues.items()}
        if self._scheduling is None:
            sources = {n: s for n, s in self._open(start.started_us).items() if isinstance(s, LiveSource) and s.live}
            spec, costs = self._spec, Path(self._spec.checkpoint) / "costs.json"
            tick = None if spec.links is None else spec.tick_us
            policy, at_most = (spec.policy, spec.settings), spec.largest_rows
            if spec.policy in ADMITTED_NAMES:
                self._scheduling = SliceScheduling(
                    spec.app, spec.tasks, sources, queues, policy, at_most, spec.slices, costs, tick
                )
            else:
                self._scheduling = Scheduling(spec.app, spec.tasks, sources, queues, policy, at_most, costs, tick)
        committed = self._scratch.committed()
        self._scheduling.completed(start.seq, now_us, committed)
        return queues, self._scheduling.next(start.seq + 1, now_us, queues, committed, closing)

    def _open(self, started_us: int) -> dict[str, Source]:
        if self._sources is None:
            self._sources = self._spec.sources(started_us)
        return self._sources

    def readBetweenOffsets(self, start: Json, end: Json) -> Iterator[Row]:  # noqa: N802
        """Returns the rows of a batch that is replayed."""
        return self._rows(Offset.from_json(start), Offset.from_json(end))

    def _rows(self, start: Offset, end: Offset) -> Iterator[Row]:
        rows = _rows(self._spec, start, end) if end.lanes is None else self._lane_rows(start, end)
        return iter(list(rows))  # a list's iterator: Spark copies it

    def _lane_rows(self, start: Offset, end: Offset) -> Iterator[Row]:
        """Returns a row per lane: it says where to ask for rounds. No row of an epoch outlives this process."""
        if end.seq == start.seq:
            return
        assert self._server is not None, "an epoch that was not committed is planned anew"
        lanes = sum(1 for lane in end.lanes or () if lane["tasks"])
        for place, lane in enumerate(end.lanes or ()):
            name = f"lane {place + 1}"
            if not lane["tasks"]:  # a change of the app has dropped all its tasks
                yield name, bucket_of(name, place), end.seq, json.dumps({"gone": True})
                continue
            about = {"epoch": end.seq, "lane": place, "started_us": end.started_us, "admission": self._server.address}
            payload = json.dumps({**about, "lanes": lanes, "tasks": lane["tasks"], "adopted": lane["adopted"]})
            yield name, bucket_of(name, place), end.seq, payload


def _rows(spec: RunSpec, start: Offset, end: Offset) -> Iterator[Row]:
    batch = batch_of(start, end, spec.tasks)
    if spec.warm_up and end != start:
        batch = {task.name: {"ranges": [], "shed": {}, "dropped": {}} for task in spec.tasks}
    for task, mine in batch.items():
        payload: dict[str, Any] = {"started_us": end.started_us, "admitted_us": end.admitted_us, **mine}
        yield task, spec.bucket(task), end.seq, json.dumps(payload)
    after, gone = spec.dropped
    if gone and start.seq == after and end.seq > after:  # the first batch after a change removes the state
        for task in gone:
            yield task, spec.bucket(task), end.seq, json.dumps({"gone": True})


def _now_us() -> int:
    return time.time_ns() // 1000
