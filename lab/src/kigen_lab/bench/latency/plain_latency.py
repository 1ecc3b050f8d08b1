"""Measures the latencies of plain Structured Streaming on the same schedule. Runs in the process of
`kigen_lab.bench.lifetimes.plain_side`.

It is given what suits it best: a source that hands its rows to the driver at once (SimpleDataSourceStreamReader;
Spark's own `rate` source releases rows once per second), Spark's native aggregate over tumbling windows in update mode,
one streaming query per stream, no trigger interval, no batches without data, and a sink that appends the changed groups
to a CSV file. What it cannot mean: the windows do not slide with each tuple, a batch gives the last value of each group
instead of every change, and nothing is given out when tuples expire.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.query import StreamingQuery

from kigen.spark.sink.metrics import Histogram
from kigen_lab.bench.latency.schedule import WINDOW_S, Load, arrival_us, arrived_by, room_of, temp_of
from kigen_lab.bench.worker import Answer

_NAME = "kigen_bench_schedule"
_AT_MOST = 50_000  # rows per batch
_START_S = 60.0  # after which a side that does not keep up is measured as it is
_BEHIND_US = 3_000_000
Row = tuple[str, float, float]


class ScheduleSource(DataSource):
    """Rows that appear at their scheduled times. Options: `rate` in rows per second, `start_us`."""

    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> str:
        return "room string, temp double, at double"

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: N802
        return ScheduleReader(int(self.options["rate"]), int(self.options["start_us"]))


class ScheduleReader(SimpleDataSourceStreamReader):
    def __init__(self, rate: int, start_us: int) -> None:
        self._rate, self._start_us = rate, start_us

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"index": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Row], dict[str, int]]:
        first = start["index"]
        end = max(first, min(arrived_by(time.time_ns() // 1000 - self._start_us, self._rate), first + _AT_MOST))
        return self._rows(first, end), {"index": end}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[Row]:  # noqa: N802
        return self._rows(start["index"], end["index"])

    def _rows(self, first: int, end: int) -> Iterator[Row]:
        rate, start_us = self._rate, self._start_us
        return iter(
            [(f"room{room_of(i)}", temp_of(i), (start_us + arrival_us(i, rate)) / 1e6) for i in range(first, end)]
        )


class _Output:
    """Appends the changed groups of a batch to a file, and notes when they are as durable as required."""

    def __init__(self, path: Path, synced: bool) -> None:
        self._file, self._synced = path.open("ab"), synced
        self.done_us: dict[int, int] = {}

    def write(self, rows: DataFrame, batch: int) -> None:
        lines = "".join(f"{r.room},{r.mean!r},{r.n},{r.window.start.isoformat()}\n" for r in rows.collect())
        self._file.write(lines.encode())
        self._file.flush()
        if self._synced:
            os.fsync(self._file.fileno())
        self.done_us[batch] = time.time_ns() // 1000

    def close(self) -> None:
        self._file.close()


def run_plain_latency(
    spark: SparkSession, load: Load, folder: Path, durability: str, warm_s: float, seconds: float
) -> Answer:
    """Runs live for a while. Latencies of tuples that are done in the last `seconds` count."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    spark.dataSource.register(ScheduleSource)
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    start_us = time.time_ns() // 1000
    outputs = [_Output(folder / f"q{i}.csv", durability == "power") for i in range(load.queries)]
    queries = [_start(spark, load, folder, start_us, i, output) for i, output in enumerate(outputs)]
    try:
        limit = time.monotonic() + _START_S
        while time.monotonic() < limit and not _caught_up(queries, load.rate_of_each, start_us):
            _raise_failure(queries)
            time.sleep(0.05)
        time.sleep(warm_s)
        began_us = time.time_ns() // 1000
        time.sleep(seconds)
        ended_us = time.time_ns() // 1000
        _raise_failure(queries)
        time.sleep(1.0)  # Spark reports a batch after its end
        progress = [[json.loads(batch.json) for batch in query.recentProgress] for query in queries]
    finally:
        for query in queries:
            query.stop()
        for output in outputs:
            output.close()
    histogram = Histogram()
    for output, batches in zip(outputs, progress, strict=True):
        add_latencies(histogram, output.done_us, batches, load.rate_of_each, start_us, (began_us, ended_us))
    shutil.rmtree(folder, ignore_errors=True)
    return {"histogram": histogram.to_json(), "seconds": (ended_us - began_us) / 1e6}


def _start(
    spark: SparkSession, load: Load, folder: Path, start_us: int, number: int, output: _Output
) -> StreamingQuery:
    options = {"rate": str(load.rate_of_each), "start_us": str(start_us)}
    rows = spark.readStream.format(_NAME).options(**options).load()
    results = (
        rows.selectExpr("room", "temp", "timestamp_micros(cast(at * 1e6 as bigint)) AS ts")
        .withWatermark("ts", "0 seconds")
        .groupBy(_window(), "room")
        .agg({"temp": "avg", "*": "count"})
        .withColumnsRenamed({"avg(temp)": "mean", "count(1)": "n"})
    )
    writer = results.writeStream.outputMode("update").foreachBatch(output.write)
    return writer.option("checkpointLocation", str(folder.absolute() / f"checkpoint{number}")).start()


def _window() -> Any:
    from pyspark.sql.functions import window

    return window("ts", f"{WINDOW_S} seconds")


def _caught_up(queries: list[StreamingQuery], rate: int, start_us: int) -> bool:
    """Checks whether the first batches, which are slow, are over and what has waited for them is done."""
    arrived = arrived_by(time.time_ns() // 1000 - start_us - _BEHIND_US, rate)
    last = [query.lastProgress for query in queries]
    return all(
        batch is not None and _index(json.loads(batch.json)["sources"][0]["endOffset"]) >= arrived for batch in last
    )


def _raise_failure(queries: list[StreamingQuery]) -> None:
    for query in queries:
        if not query.isActive:
            query.awaitTermination()  # raises the error that ended it


def add_latencies(
    histogram: Histogram,
    done_us: dict[int, int],
    batches: list[dict[str, Any]],
    rate: int,
    start_us: int,
    counted_us: tuple[int, int],
) -> None:
    """Adds the tuples of the batches that were done between the two times of `counted_us`."""
    for batch in batches:
        at_us = done_us.get(batch["batchId"])
        if at_us is None or not counted_us[0] <= at_us < counted_us[1] or not batch["numInputRows"]:
            continue
        first, end = (_index(batch["sources"][0][key]) for key in ("startOffset", "endOffset"))
        for index in range(first, end):
            histogram.add(at_us - start_us - arrival_us(index, rate))


def _index(offset: Any) -> int:
    """Returns the index in an offset as Spark reports it: JSON as text, or already parsed; None at the start."""
    if offset is None:
        return 0
    return int((json.loads(offset) if isinstance(offset, str) else offset)["index"])
