"""Runs epochs without Spark: the reader, the lanes and the sink of a run, each in a thread of the test.

A crash ends a lane in the middle of a step. The test then either tries the lane again, as Spark does, or begins again
from the checkpoint, as a new run does.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from spark.worker_side import State

from kigen.connectors import LiveSource, Sink, open_sink
from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.runtime import Give, StepResult
from kigen.plan.logical import Connector
from kigen.spark.admission.reader import AdmissionReader
from kigen.spark.operator import group_step, result_rows
from kigen.spark.operator.lane import lane_runner
from kigen.spark.operator.outbox import encode_encoders
from kigen.spark.scratch import Scratch
from kigen.spark.sink.batch_sink import BatchSink
from kigen.spark.spec import RunSpec


class Crash(BaseException):
    """Ends a lane as SIGKILL would: nothing catches it."""


class CrashingRuntime(TaskRuntime):
    """Crashes after some steps of all tasks together."""

    steps_left: int | None = None

    def step(self, inputs: dict[str, StreamInput], give: Give | None = None) -> StepResult:
        left = CrashingRuntime.steps_left
        if left is not None:
            CrashingRuntime.steps_left = left - 1 if left else None
            if not left:
                raise Crash
        return super().step(inputs, give)


class Frame:
    """The part of a DataFrame that the sink uses."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(result_rows.COLUMNS)
        self._table = pa.table(dict(zip(result_rows.COLUMNS, columns, strict=True)))

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self._table


def csv_sink(spec: RunSpec, query: str, folder: Path) -> Sink:
    found = next(q for q in spec.app.queries if q.name == query)
    return open_sink(
        Connector("csv", (("path", f"{query}.csv"),)), found.schema, found.root.is_stream, str(folder), query
    )


class Run:
    """The processes of a run on one checkpoint. State and offset are those that Spark has committed."""

    def __init__(self, spec: RunSpec, out: Path, committed: tuple[dict[str, Any] | None, dict[str, Any]]) -> None:
        outputs = {q.name: [(f"{q.name} output", csv_sink(spec, q.name, out))] for q in spec.app.queries}
        self.sink = BatchSink(spec, outputs)
        self.sink.open()
        self.spec = replace(spec, sink=self.sink.serve(spec))
        self.reader = AdmissionReader(self.spec)
        self.offset, self.states = committed
        if self.offset is None:
            self.offset = self.reader.initialOffset()
        self.batch = int(self.offset["seq"])

    def epoch(self) -> bool:
        """Runs one epoch. Returns False if none is left, raises Crash."""
        assert self.offset is not None
        rows, end = self.reader.read(self.offset)
        lanes = list(rows)
        if not lanes:
            return False
        states = {lane: State() for lane, *_ in lanes}
        for lane, state in states.items():
            state.value = self.states.get(lane)
        self.sink(Frame(self._lanes(lanes, states)), self.batch)  # type: ignore[arg-type]
        self.offset, self.states = end, {lane: state.value for lane, state in states.items()}
        self.batch += 1
        return True

    def _lanes(self, lanes: list[Any], states: dict[str, State]) -> list[tuple[Any, ...]]:
        out: list[tuple[Any, ...]] = []
        errors: list[BaseException] = []

        def work(row: tuple[Any, ...]) -> None:
            frame = pd.DataFrame([row], columns=["task", "bucket", "seq", "payload"])
            encoders = encode_encoders(self.sink.encoders())
            for attempt in range(4):
                try:
                    for found in group_step.run_group(
                        row[:2], iter([frame]), states[row[0]], self.spec.encode(), encoders
                    ):
                        out.extend(found.astype(object).where(found.notna(), None).itertuples(index=False, name=None))
                    return
                except BaseException as error:
                    if not self.tries_again or attempt == 3 or not isinstance(error, Crash):
                        Scratch(self.spec.scratch).stop_epochs()  # the other lanes end, too
                        errors.append(error)
                        return

        threads = [threading.Thread(target=work, args=(row,)) for row in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(250)
        if errors:
            raise errors[0]
        return out

    tries_again = True

    def close(self) -> None:
        if self.reader._server is not None:
            self.reader._server._broken = True  # its process is gone: no lane may go on
        for (run_id, _), runner in list(lane_runner._RUNNERS.items()):
            while run_id == self.spec.run_id and runner.is_alive:
                time.sleep(0.001)
        self.sink.close()


def undisturbed(spec: RunSpec, started_us: int, folder: Path) -> None:
    """Writes the lines of a run that reads each stream as a whole."""
    for task in spec.tasks:
        inputs: dict[str, StreamInput] = {}
        for name in task.streams:
            source = spec.source(name, started_us)
            assert isinstance(source, LiveSource)
            total = source.total()
            assert total is not None
            rows = source.read(source.piece(name, 0, total, None, True))
            inputs[name] = StreamInput([rows.table], None, True)
        result = TaskRuntime(task, spec.app, spec.lifetime).step(inputs)
        for query in task.queries:
            sink = csv_sink(spec, query.name, folder)
            sink.open(None)
            if query.name in result.outputs:
                sink.write(result.outputs[query.name])
            sink.commit()
            sink.close()
