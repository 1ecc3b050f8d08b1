"""Defines the smallest stateful query of plain Structured Streaming: a count and a mean per group, few tuples per
batch.

It has two forms, transformWithStateInPandas and the older applyInPandasWithState. The first needs the package
`protobuf`, which pyspark does not install. Without it the form is reported as missing; it is never replaced silently.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

FORMS = ("transformWithStateInPandas", "applyInPandasWithState")
_STATE = "n long, total long"
_OUT = "key long, n long, mean double"


def missing(form: str) -> str | None:
    """Returns why a form cannot run here, or None if it can."""
    if form == "transformWithStateInPandas" and not _importable("google.protobuf"):
        return "transformWithStateInPandas needs the package protobuf (pip install 'protobuf>=6.33.5')"
    return None


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


class RunningMean(StatefulProcessor):
    """Counts tuples and adds up values per key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("mean", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        before = self._state.get() if self._state.exists() else None
        n, total = _add(rows, *(before or (0, 0)))
        self._state.update((n, total))
        yield _result(key, n, total)

    def close(self) -> None:
        """Does nothing: no resources are held."""


def running_mean(key: Any, rows: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    n, total = _add(rows, *(state.get if state.exists else (0, 0)))
    state.update((n, total))
    yield _result(key, n, total)


def _add(rows: Iterator[pd.DataFrame], n: int, total: int) -> tuple[int, int]:
    for frame in rows:
        n, total = n + len(frame), total + int(frame["value"].sum())
    return n, total


def _result(key: Any, n: int, total: int) -> pd.DataFrame:
    return pd.DataFrame({"key": [key[0]], "n": [n], "mean": [total / n]})


def floor_query(spark: SparkSession, form: str, tuples: int) -> DataFrame:
    """Returns a query on Spark's `rate-micro-batch` source, which gives every trigger the same few rows at once, so
    batches run back to back.
    """
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", tuples).load()
    groups = source.selectExpr("value % 4 AS key", "value").groupBy("key")
    if form == "transformWithStateInPandas":
        return groups.transformWithStateInPandas(RunningMean(), _OUT, "append", "none")
    return groups.applyInPandasWithState(running_mean, _OUT, _STATE, "append", "NoTimeout")
