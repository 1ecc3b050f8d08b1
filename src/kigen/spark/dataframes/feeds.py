"""Feeds streaming DataFrames into the ingest queues of a run: `FROM spark (format = ...)` and `Engine.stream`.

Each stream is a streaming query of Spark with a checkpoint of its own below the run's. Its batches are pushed with
their number as idempotency key, so a batch that Spark repeats after a restart is taken once. A full queue makes the
query wait. Invariant: a batch that Spark has committed is in the queue, as durable as the run is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kigen.connectors.pushed import IngestFull, KeyReused
from kigen.plan.logical import App, SourceStream
from kigen.spark.dataframes.columns import selected

SPARK = "spark"  # the connector
Push = Callable[[str, pa.Table, str], Any]
_WAIT_S = 0.05
_ROWS = 20_000  # per push: a queue has room for so many at once


def spark_streams(app: App) -> tuple[SourceStream, ...]:
    """Returns the streams that DataFrames feed."""
    return tuple(stream for stream in app.streams if stream.source.name == SPARK and not stream.table)


class FrameFeeds:
    """The streaming queries that feed a run."""

    def __init__(self, push: Push, checkpoint: Path) -> None:
        self._push, self._checkpoint = push, checkpoint
        self._stopping = threading.Event()
        self._queries: dict[str, StreamingQuery] = {}
        self.error: Exception | None = None

    def start(self, spark: SparkSession, app: App, frames: Mapping[str, DataFrame]) -> None:
        """Starts a query per stream. `frames` are those that the user gave; others are read by their options."""
        for stream in spark_streams(app):
            frame = frames[stream.name] if stream.name in frames else _read(spark, stream)
            writer = selected(frame, stream.schema).writeStream.foreachBatch(self._batch(stream.name))
            folder = self._checkpoint / "frames" / stream.name
            self._queries[stream.name] = writer.option("checkpointLocation", str(folder)).start()

    def _batch(self, stream: str) -> Callable[[DataFrame, int], None]:
        def take(frame: DataFrame, number: int) -> None:
            try:
                table = _in_utc(frame.toArrow())
                for piece, first in enumerate(range(0, table.num_rows, _ROWS)):
                    self._deliver(stream, table.slice(first, _ROWS), f"spark-{number}-{piece}")
            except Exception as error:
                if not self._stopping.is_set():
                    self.error = self.error or error
                raise

        return take

    def _deliver(self, stream: str, rows: pa.Table, key: str) -> None:
        while True:
            try:
                self._push(stream, rows, key)
                return
            except KeyReused:  # a batch that Spark repeats may have its rows in another order
                return
            except IngestFull:
                if self._stopping.wait(_WAIT_S):
                    raise

    def failure(self) -> str | None:
        """Returns why a query has failed; None if none has."""
        for name, query in self._queries.items():
            if not query.isActive and not self._stopping.is_set():
                return f"stream '{name}': {self.error or query.exception() or 'its DataFrame ended'}"
        return None

    def stop(self) -> None:
        self._stopping.set()
        for query in self._queries.values():
            query.stop()


def _read(spark: SparkSession, stream: SourceStream) -> DataFrame:
    options = {key: value for key, value in stream.source.options if key != "format"}
    return spark.readStream.format(str(stream.source.option("format"))).options(**options).load()


def _in_utc(table: pa.Table) -> pa.Table:
    """Spark labels times with the session's zone; the instants are the same."""
    utc = pa.timestamp("us", "UTC")
    fields = [pa.field(f.name, utc if pa.types.is_timestamp(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(fields))
