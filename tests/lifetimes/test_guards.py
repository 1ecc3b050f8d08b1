"""Conditions that might raise see only the rows that the other conditions leave: the kernel answers what DuckDB
answers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kigen.lifetimes import StreamInput
from kigen.lifetimes.expressions.evaluation import EvaluationError
from kigen.lifetimes.runtime import TaskRuntime
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks

STREAMS = """
CREATE STREAM a (v BIGINT, s STRING) FROM synthetic (rate = 1);
CREATE STREAM b (v BIGINT, s STRING) FROM synthetic (rate = 1);
"""
ROWS = [(0, "zero"), (1, "1"), (2, "20"), (3, None)]


def results(body: str) -> list[int]:
    app = bind(f"{STREAMS} CREATE QUERY q AS {body};")
    (task,) = extract_tasks(app)
    columns = {"c0": pa.array([v for v, _ in ROWS], pa.int64()), "c1": pa.array([s for _, s in ROWS], pa.string())}
    table = pa.table(columns | {"_ts": pa.array(range(len(ROWS)), pa.int64())})
    given = {name: StreamInput([table], ended=True) for name in task.streams}
    return sorted(TaskRuntime(task, app).step(given).outputs["q"].column(0).to_pylist())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("SELECT v FROM a [ROWS 9] WHERE v <> 0 AND 10 // v > 3", [1, 2]),
        ("SELECT v FROM a [ROWS 9] WHERE 10 // v > 3 AND v <> 0", [1, 2]),
        ("SELECT a.v FROM a [ROWS 9], b [ROWS 9] WHERE CAST(a.s AS BIGINT) = b.v AND a.s <> 'zero'", [1]),
        ("SELECT a.v FROM a [ROWS 9], b [ROWS 9] WHERE a.v = b.v AND CAST(b.s AS BIGINT) > 5 AND b.v > 0", [2]),
        ("SELECT v FROM (SELECT v, COUNT(*) AS n FROM a [ROWS 9] GROUP BY v HAVING 10 // v > 3 AND v > 0)", [1, 2]),
    ],
)
def test_a_guard_protects_wherever_it_is_written(body: str, expected: list[int]) -> None:
    found = results(body)
    assert sorted(set(found)) == expected


def test_without_a_guard_it_raises() -> None:
    with pytest.raises(EvaluationError, match="zero"):
        results("SELECT a.v FROM a [ROWS 9], b [ROWS 9] WHERE CAST(a.s AS BIGINT) = b.v")


def test_a_join_guards_nothing_below_it() -> None:
    """By decision (docs/decisions/017), the row of a that b's condition would remove is converted first."""
    with pytest.raises(EvaluationError, match="zero"):
        results("SELECT a.v FROM a [ROWS 9], b [ROWS 9] WHERE a.v = b.v AND b.s <> 'zero' AND CAST(a.s AS BIGINT) > 0")
