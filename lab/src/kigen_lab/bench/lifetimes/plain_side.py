"""Runs plain Structured Streaming with Spark's defaults and what any guide tells users to set: partitions and memory.

It is a process of its own: `python -m kigen_lab.bench.lifetimes.plain_side`.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kigen_lab.bench.floor.plain_floor import floor_query
from kigen_lab.bench.latency.plain_latency import run_plain_latency
from kigen_lab.bench.latency.schedule import Load
from kigen_lab.bench.lifetimes.newer_queries import BY_NAME
from kigen_lab.bench.lifetimes.plain_queries import plain_query, read
from kigen_lab.bench.lifetimes.queries import PaperQuery
from kigen_lab.bench.steady import BatchEnd, steady_rate
from kigen_lab.bench.worker import Answer, serve

_PACKAGE = "org.apache.spark.sql.execution.streaming.state"
STORES = {"memory": f"{_PACKAGE}.HDFSBackedStateStoreProvider", "rocksdb": f"{_PACKAGE}.RocksDBStateStoreProvider"}
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def start_plain() -> SparkSession:
    cores = os.cpu_count() or 1
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    settings = {
        # Each has a state store and a Python worker: the default of 200 takes seconds per batch.
        "spark.sql.shuffle.partitions": cores,
        "spark.driver.memory": f"{max(1, memory_gb // 3)}g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": 1000,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    builder = SparkSession.builder.master("local[*]").appName("plain")
    for key, value in settings.items():
        builder = builder.config(key, str(value))
    return builder.getOrCreate()


def run_plain(
    spark: SparkSession,
    query: PaperQuery,
    window: int,
    paths: dict[str, str],
    files_per_batch: int,
    store: str,
    out: Path,
) -> Answer:
    """Does one run. All result rows are written to parquet files, counted and deleted. `rate` is tuples per second in
    steady state.
    """
    shutil.rmtree(out, ignore_errors=True)
    spark.conf.set(_PROVIDER, STORES[store])
    streams = [read(spark, name, paths[name], files_per_batch) for name in query.streams]
    results = plain_query(query.name, streams, query.window_size(window))
    target, checkpoint = str(out.absolute() / "rows"), str(out.absolute() / "checkpoint")
    writer = results.writeStream.format("parquet").option("path", target).option("checkpointLocation", checkpoint)
    running = writer.trigger(availableNow=True).start()
    running.awaitTermination()
    batches = [b for b in _progress(running) if b["numInputRows"] > 0]
    rows = spark.read.parquet(target).count()
    shutil.rmtree(out, ignore_errors=True)
    ends = batch_ends(batches)
    return {
        "tuples": ends[-1].tuples,
        "rows": rows,
        "batches": len(ends),
        "rate": steady_rate(ends, window),
        "store": store,
    }


def batch_ends(batches: list[dict[str, Any]]) -> list[BatchEnd]:
    """Puts batches directly one after another: the time between them does not count."""
    ends, at_ms, tuples = [], 0, 0
    for batch in batches:
        at_ms, tuples = at_ms + batch["durationMs"]["triggerExecution"], tuples + batch["numInputRows"]
        ends.append(BatchEnd(at_ms / 1000, tuples))
    return ends


def run_plain_floor(spark: SparkSession, form: str, folder: Path, batches: int, tuples: int) -> Answer:
    """Runs batches of a few tuples back to back. Returns what Spark reports for each.

    transformWithState works on RocksDB only.
    """
    out = folder / "plain-floor"
    shutil.rmtree(out, ignore_errors=True)
    spark.conf.set(_PROVIDER, STORES["rocksdb" if form == "transformWithStateInPandas" else "memory"])
    writer = floor_query(spark, form, tuples).writeStream.format("parquet").option("path", str(out.absolute() / "rows"))
    running = writer.option("checkpointLocation", str(out.absolute() / "checkpoint")).start()
    try:
        while running.isActive and (running.lastProgress is None or running.lastProgress.batchId < batches):
            time.sleep(0.25)
        if not running.isActive:
            running.awaitTermination()  # raises the error that ended it
        progress = _progress(running)
    finally:
        running.stop()
    shutil.rmtree(out, ignore_errors=True)
    return {"progress": progress}


def _progress(query: StreamingQuery) -> list[dict[str, Any]]:
    return [json.loads(batch.json) for batch in query.recentProgress]


def main() -> None:
    spark = start_plain()

    def run(request: dict[str, Any]) -> Answer:
        query = BY_NAME[request.pop("query")]
        return run_plain(spark, query=query, **{**request, "out": Path(request["out"])})

    def floor(request: dict[str, Any]) -> Answer:
        return run_plain_floor(spark, request["form"], Path(request["folder"]), request["batches"], request["tuples"])

    def latency(request: dict[str, Any]) -> Answer:
        load = Load(request.pop("queries"), request.pop("rate"))
        return run_plain_latency(spark, load, **{**request, "folder": Path(request["folder"])})

    serve({"run": run, "floor": floor, "latency": latency}, spark.stop)


if __name__ == "__main__":
    main()
