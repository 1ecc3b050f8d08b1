"""Builds and runs the streaming query of a run: source, stateful operator and sink.

All queries of an app run in this one streaming query.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kigen.spark.admission.source import FORMAT_NAME, KigenSource
from kigen.spark.lanes import in_lanes, slots
from kigen.spark.operator import group_step, manifest, result_rows
from kigen.spark.operator.outbox import encode_encoders
from kigen.spark.rounds import round_log
from kigen.spark.scratch import Scratch
from kigen.spark.session.start import own_settings, quiet
from kigen.spark.shared_slots import give_slots, take_slots
from kigen.spark.sink.batch_sink import BatchSink
from kigen.spark.spec import RunSpec
from kigen.spark.watch import worker_deaths

# Spark's error if a Python worker does not start within ten seconds. The time cannot be set, and a busy machine may
# need longer.
_WORKER_TOO_SLOW = "Python worker failed to connect back"
_TRIES = 4
_ASK_EVERY_S = 0.1
_LOOK_S = 0.005
_STARTING_S = 60.0  # for the lanes of a run to be ready
_LOST_CONNECTION = (Py4JNetworkError, ConnectionError, EOFError)


class Pipeline:
    """A running streaming query. It is started again if a Python worker was too slow to start.

    `ready` is called when only the streams are missing. It may wait for other nodes; the streams of a new run begin
    when it returns. In a new run with lanes, their workers have loaded the kernels by then. A run that continues has
    rounds to make again first, and others may wait for their results.
    """

    def __init__(
        self, spark: SparkSession, spec: RunSpec, sink: BatchSink, ready: Callable[[], None] | None = None
    ) -> None:
        spec = in_lanes(spark, spec)
        if spec.lanes:
            spec = dataclasses.replace(spec, sink=sink.serve(spec))
        self.lanes, self._align = spec.lanes, sink.align
        self._start = functools.partial(_start, own_settings(spark), spec, sink, encode_encoders(sink.encoders()))
        self.lost = False  # whether Spark's Java process has stopped to answer
        self._tries = 1
        self._asked_s = 0.0  # when Spark last said that the query is active
        self._give_slots: Callable[[], None] | None = None
        held = ready is not None and spec.lanes > 0 and not round_log.epochs(spec.checkpoint)
        if held:
            sink.scratch.hold_streams()
        elif ready is not None:
            ready()
        self._query = self._start()
        if spec.lanes:
            holder = str(spark.sparkContext.applicationId), slots(spark), sink.scratch
            take_slots(*holder, spec.lanes)
            self._give_slots = functools.partial(give_slots, *holder)
        if held and ready is not None:
            self._release(sink.scratch, ready)

    def _release(self, scratch: Scratch, ready: Callable[[], None]) -> None:
        """Lets the streams begin when the lanes are ready and `ready` has returned."""
        try:
            self._await_lanes(scratch)
            ready()
        except BaseException:
            self.stop()
            raise
        finally:
            scratch.release_streams()

    def _await_lanes(self, scratch: Scratch) -> None:
        """Waits until the workers of all lanes are ready, or one is late, or the query has failed."""
        until = time.monotonic() + _STARTING_S
        while not scratch.lanes_ready and self.seems_active and time.monotonic() < until:
            time.sleep(_LOOK_S)

    @property
    def active(self) -> bool:
        return bool(self._ask_spark(self._active))

    @property
    def seems_active(self) -> bool:
        """Like `active`, but asks Spark only now and then: each question costs work in both processes."""
        if time.monotonic() - self._asked_s < _ASK_EVERY_S:
            return True
        is_active = self.active
        self._asked_s = time.monotonic() if is_active else 0.0
        return is_active

    def _active(self) -> bool:
        if self._query.isActive:
            return True
        if self._tries < _TRIES and not self._query.recentProgress and _WORKER_TOO_SLOW in (self.failure() or ""):
            self._tries += 1
            self._align()
            self._query = self._start()
            return True
        return False

    def stop(self) -> None:
        """Stops the query now. The next run on the checkpoint repeats a batch that is not committed."""
        try:
            self._ask_spark(self._query.stop)
        finally:
            if self._give_slots is not None:
                self._give_slots()

    def progress(self) -> list[dict[str, Any]]:
        """Returns Spark's progress reports of the last few batches."""
        return [json.loads(batch.json) for batch in self._query.recentProgress]

    def failure(self) -> str | None:
        """Returns the error with which Spark ended the query, or None."""
        error = self._ask_spark(self._query.exception)
        return "its Java process does not answer" if self.lost else None if error is None else str(error)

    def _ask_spark(self, ask: Callable[[], Any]) -> Any:
        """Calls Spark. Returns None and sets `lost` if its Java process does not answer any more."""
        if self.lost:
            return None
        try:
            return ask()
        except Py4JJavaError:
            raise
        except (Py4JError, ConnectionError, EOFError):
            self.lost = True
            return None


def is_process_death(error: Exception) -> bool:
    """Checks whether an error means that a process of Spark died."""
    return isinstance(error, _LOST_CONNECTION) or worker_deaths.is_worker_death(str(error))


def warm_up(spark: SparkSession, spec: RunSpec) -> None:
    """Runs an empty batch: the first batch takes seconds, and no tuple with a deadline should wait for it."""
    for tried in range(1, _TRIES + 1):
        checkpoint = str(Path(spec.scratch) / f"warm-up-{tried}")
        cold = dataclasses.replace(spec, run_id=f"{spec.run_id}-warm-up-{tried}", checkpoint=checkpoint, warm_up=True)
        try:
            _start(own_settings(spark), cold, lambda frame, _: frame.toArrow()).awaitTermination()
        except StreamingQueryException as error:
            if tried == _TRIES or _WORKER_TOO_SLOW not in str(error):
                raise
        else:
            return


def _start(
    spark: SparkSession, spec: RunSpec, sink: Callable[[DataFrame, int], None], encoders: str | None = None
) -> StreamingQuery:
    partitions = _partitions(spark, spec)
    text = dataclasses.replace(spec, partitions=partitions).encode()
    with quiet():
        spark.dataSource.register(KigenSource)
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        frame = spark.readStream.format(FORMAT_NAME).option("spec", text).load()
        if partitions == 1:
            frame = frame.coalesce(1)  # one partition needs no shuffle, which saves a stage
        step = functools.partial(group_step.run_group, spec_text=text, encoders_text=encoders)
        results = frame.groupBy("task", "bucket").applyInPandasWithState(
            step, result_rows.SCHEMA, manifest.STATE_SCHEMA, "append", "NoTimeout"
        )
        writer = results.writeStream.foreachBatch(sink).option(
            "checkpointLocation", str(Path(spec.checkpoint) / "spark")
        )
        ends = spec.draining or spec.warm_up
        return (writer.trigger(availableNow=True) if ends else writer.trigger(processingTime="0 seconds")).start()


def _partitions(spark: SparkSession, spec: RunSpec) -> int:
    """Returns the number of partitions: at most one per core and per task, since each adds work to every batch."""
    if spec.lanes:
        return spec.lanes
    return max(1, min(len(spec.tasks), spec.partitions or int(spark.sparkContext.defaultParallelism)))
