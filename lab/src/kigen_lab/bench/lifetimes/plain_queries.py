"""Writes the paper's queries in plain Structured Streaming as a good user would: native where possible, with lifetimes.

The sliding average has no native form. For each group, state keeps the tuples of the window. Each batch computes all
changes between its tuples at once with numpy: it sorts births and deaths, cumulates them and cuts them into intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

_SCHEMAS = {
    "stru": "ca string, cb long, cc string, ts timestamp",
    "strb0": "ca long, cb string, cc long, ts timestamp",
    "strb1": "ca long, cb string, cc long, ts timestamp",
}
_STATE = "ts binary, cb binary, since long"  # tuples of the window, and the time from which nothing was emitted


def read(spark: SparkSession, stream: str, path: str, files_per_batch: int) -> DataFrame:
    return spark.readStream.schema(_SCHEMAS[stream]).option("maxFilesPerTrigger", files_per_batch).parquet(path)


def plain_query(name: str, streams: list[DataFrame], size_ms: int) -> DataFrame:
    """Returns the query of that name. `size_ms` is the window of each stream."""
    window = fn.expr(f"interval {size_ms} milliseconds")
    if name == "selection":
        return _alive(streams[0].where("cb > 3"), window)
    if name == "projection":
        return _alive(streams[0], window).select("ca", "cb", "_from", "_to")
    if name == "union":
        return _alive(streams[0], window).unionAll(_alive(streams[1], window))
    if name == "join":
        return _join(streams[0], streams[1], size_ms)
    if name == "average":
        return _average(streams[0], size_ms)
    raise ValueError(f"no plain form of '{name}'")


def _alive(frame: DataFrame, window: Column) -> DataFrame:
    return frame.withColumns({"_from": fn.col("ts"), "_to": fn.col("ts") + window})


def _join(left: DataFrame, right: DataFrame, size_ms: int) -> DataFrame:
    """Joins with watermarks and time bounds on both sides, so that Spark can forget tuples that cannot meet anything
    any more.
    """
    mine = left.withWatermark("ts", "0 seconds").alias("l")
    other = (
        right.select(*(fn.col(c).alias(f"{c}_1") for c in right.columns)).withWatermark("ts_1", "0 seconds").alias("r")
    )
    bounds = (
        f"ca = ca_1 AND ts_1 < ts + interval {size_ms} milliseconds AND ts_1 > ts - interval {size_ms} milliseconds"
    )
    window = fn.expr(f"interval {size_ms} milliseconds")
    return mine.join(other, fn.expr(bounds)).withColumns(
        {"_from": fn.greatest("ts", "ts_1"), "_to": fn.least("ts", "ts_1") + window}
    )


def _average(frame: DataFrame, size_ms: int) -> DataFrame:
    size_us = size_ms * 1000

    def changes(key: tuple[str, str], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        yield average_step(frames, state, size_us)

    slim = frame.select("ca", "cc", fn.unix_micros("ts").alias("ts"), "cb")
    found = slim.groupBy("ca", "cc").applyInPandasWithState(
        changes, "mean double, start_us long, stop_us long", _STATE, "append", "NoTimeout"
    )
    return found.select(
        "mean", fn.timestamp_micros("start_us").alias("_from"), fn.timestamp_micros("stop_us").alias("_to")
    )


def average_step(frames: Iterator[pd.DataFrame], state: Any, size_us: int) -> pd.DataFrame:
    """Returns all changes of one group's average up to its newest tuple. The interval that is still open waits for the
    next batch.
    """
    given = list(frames)
    ts = np.concatenate([f["ts"].to_numpy(np.int64) for f in given])
    cb = np.concatenate([f["cb"].to_numpy(np.int64) for f in given])
    order = np.argsort(ts, kind="stable")
    ts, cb = ts[order], cb[order]
    since = int(ts[0])
    if state.exists:
        old_ts, old_cb, since = state.get
        ts = np.concatenate([np.frombuffer(old_ts, np.int64), ts])
        cb = np.concatenate([np.frombuffer(old_cb, np.int64), cb])
    now = int(ts[-1])
    instants, which = np.unique(np.concatenate([ts, ts + size_us]), return_inverse=True)
    sums = np.cumsum(np.bincount(which, np.concatenate([cb, -cb])))
    counts = np.cumsum(np.bincount(which, np.repeat([1, -1], len(ts))))
    start, stop = instants[:-1], instants[1:]
    out = (start >= since) & (stop <= now) & (counts[:-1] > 0)
    living = ts + size_us > now
    state.update((ts[living].tobytes(), cb[living].tobytes(), now))
    means = sums[:-1][out] / counts[:-1][out]
    return pd.DataFrame({"mean": means, "start_us": start[out], "stop_us": stop[out]})
