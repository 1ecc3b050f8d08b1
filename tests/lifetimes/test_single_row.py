"""Tests that a scalar sub-query with two rows at one instant ends the run, in both methods, and only then."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.expressions.evaluation import EvaluationError
from kigen.plan.binder import bind
from kigen.plan.tasks import extract_tasks

STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = '{name}.csv');" for name in "ab"
)


def run(window: str, times: list[int], mode: str) -> list[tuple[int | None, int]]:
    app = bind(f"{STREAMS} CREATE QUERY q AS ISTREAM(SELECT (SELECT k FROM b [{window}]) AS v FROM a [UNBOUNDED]);")
    (task,) = extract_tasks(app)

    def given(at: list[int]) -> StreamInput:
        columns = {"c0": pa.array(at), "c1": pa.array(at, pa.timestamp("us")), "_ts": pa.array(at)}
        return StreamInput([pa.table(columns)], ended=True)

    table = TaskRuntime(task, app, mode).step({"a": given([0]), "b": given(times)}).outputs["q"]
    return sorted(zip(table["c0"].to_pylist(), table["_at"].to_pylist(), strict=True), key=lambda row: row[1])


@pytest.mark.parametrize("mode", ["dt", "nt"])
def test_one_row_after_the_other(mode: str) -> None:
    assert run("RANGE 5 MICROSECONDS", [5, 10, 20], mode) == [(None, 0), (5, 5), (10, 10), (None, 15), (20, 20)]


@pytest.mark.parametrize("mode", ["dt", "nt"])
def test_two_rows_at_once_end_the_run(mode: str) -> None:
    with pytest.raises(EvaluationError, match=r"more than one row at an instant: .*b \[RANGE 5"):
        run("RANGE 5 MICROSECONDS", [5, 9], mode)
