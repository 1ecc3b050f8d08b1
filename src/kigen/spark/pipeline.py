"""The streaming query of a run: source, stateful operator, sink, put together. Many queries of one app are this one
streaming query."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from kigen.spark.admission.source import FORMAT_NAME, KigenSource
from kigen.spark.operator import group_step, manifest, result_rows
from kigen.spark.operator.outbox import encode_encoders
from kigen.spark.session.start import own_settings, quiet
from kigen.spark.sink.batch_sink import BatchSink
from kigen.spark.spec import RunSpec
from kigen.spark.watch import worker_deaths

_WORKER_TOO_SLOW = (
    "Python worker failed to connect back"  # within ten seconds, which cannot be set; a busy machine may need longer
)
_TRIES = 4
_LOST_CONNECTION = (Py4JNetworkError, ConnectionError, EOFError)


class Pipeline:
    """A running streaming query."""

    def __init__(self, spark: SparkSession, spec: RunSpec, sink: BatchSink) -> None:
        self._start = functools.partial(_start, own_settings(spark), spec, sink, encode_encoders(sink.encoders()))
        self.lost = False  # Spark's Java process does not answer
        self._query = self._start()
        self._tries = 1

    @property
    def active(self) -> bool:
        return bool(self._ask_spark(self._active))

    def _active(self) -> bool:
        if self._query.isActive:
            return True
        if self._tries < _TRIES and not self._query.recentProgress and _WORKER_TOO_SLOW in (self.failure() or ""):
            self._tries += 1
            self._query = self._start()
            return True
        return False

    def stop(self) -> None:
        """End now: a batch that is not committed is abandoned, and made again by the next run on the checkpoint."""
        self._ask_spark(self._query.stop)

    def progress(self) -> list[dict[str, Any]]:
        """Of the last few batches, as Spark tells it."""
        return [json.loads(batch.json) for batch in self._query.recentProgress]

    def failure(self) -> str | None:
        """What Spark says ended the query, in its own words."""
        error = self._ask_spark(self._query.exception)
        return "its Java process does not answer" if self.lost else None if error is None else str(error)

    def _ask_spark(self, ask: Callable[[], Any]) -> Any:
        """Spark's answer; None, and `lost`, if its Java process does not answer any more."""
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
    """Whether a process of Spark's ended that nobody had asked to end."""
    return isinstance(error, _LOST_CONNECTION) or worker_deaths.is_worker_death(str(error))


def warm_up(spark: SparkSession, spec: RunSpec) -> None:
    """Run one batch of nothing: the first batch of a Spark costs seconds, which no tuple should wait for that has a
    deadline."""
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
            frame = frame.coalesce(1)  # one partition satisfies every distribution: no shuffle, one stage less
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
    """One a core at most: every partition is another Python stage in every batch."""
    return max(1, min(len(spec.tasks), spec.partitions or int(spark.sparkContext.defaultParallelism)))
