"""The smallest stateful query of plain Structured Streaming, as a user would write it: a count and a mean a group, few
tuples a batch.

Two forms: transformWithStateInPandas, and the older applyInPandasWithState. Spark's transformWithStateInPandas needs
the package `protobuf`, which pyspark does not bring along: without it that form is reported as missing, never replaced
in silence.
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
    """Why a form cannot run here; None if it can."""
    if form == "transformWithStateInPandas" and not _importable("google.protobuf"):
        return "transformWithStateInPandas needs the package protobuf (pip install 'protobuf>=6.33.5')"
    return None


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


class RunningMean(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("mean", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        before = self._state.get() if self._state.exists() else None
        n, total = _add(rows, *(before or (0, 0)))
        self._state.update((n, total))
        yield _result(key, n, total)

    def close(self) -> None:
        """Nothing is held."""


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
    """Spark's `rate-micro-batch` source gives each trigger the same few rows, at once: batches run back to back."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", tuples).load()
    groups = source.selectExpr("value % 4 AS key", "value").groupBy("key")
    if form == "transformWithStateInPandas":
        return groups.transformWithStateInPandas(RunningMean(), _OUT, "append", "none")
    return groups.applyInPandasWithState(running_mean, _OUT, _STATE, "append", "NoTimeout")
