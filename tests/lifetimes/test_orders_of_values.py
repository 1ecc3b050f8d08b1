"""Values whose order is not that of plain numbers: lists and structs in streams and changes, infinities in quantiles."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from kigen.lifetimes.results.changes import ordered_table
from kigen.testing import lifetimes

STREAM = "CREATE STREAM s (k STRING, v BIGINT, x DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');\n"


@pytest.mark.parametrize("mode", ["dt", "nt"])
@pytest.mark.parametrize("operator", ["ISTREAM", "DSTREAM", "RSTREAM", "RSTREAM[2 MICROSECONDS]"])
def test_lists_and_structs_become_streams(operator: str, mode: str) -> None:
    select = "SELECT list(v ORDER BY v) AS l, {'k': k} AS p FROM s [RANGE 2 MICROSECONDS] GROUP BY k"
    rows = [("b", 2, 0.0, 0), ("a", 1, 0.0, 0), (None, 3, 0.0, 0), ("a", 1, 0.0, 4)]
    lines = lifetimes(text=f"{STREAM}CREATE QUERY q AS {operator}({select});", rows={"s": rows}, lifetime=mode)["q"]
    first = [
        (line["l"], line["p"]["k"]) for line in lines if line["_at"].microsecond == (2 if operator == "DSTREAM" else 0)
    ]
    assert sorted(first, key=str) == [([1], "a"), ([2], "b"), ([3], None)]
    assert len(lines) == (3 if operator == "DSTREAM" else 4)


def test_rows_of_a_list_window_do_not_depend_on_arrival() -> None:
    app = (
        f"{STREAM}CREATE QUERY lists AS ISTREAM(SELECT [v] AS l FROM s [NOW]);\n"
        "CREATE QUERY last AS SELECT l FROM lists [ROWS 1];"
    )
    rows = [("a", v, 0.0, 0) for v in (3, 10, None, 2)]
    for given in (rows, rows[::-1]):
        assert [line["l"] for line in lifetimes(text=app, rows={"s": given})["last"]] == [[None]]


def test_changes_are_ordered_by_lists() -> None:
    columns = pa.RecordBatch.from_arrays([pa.array([[10], [9], None, [9]])], names=["c0"])
    table = ordered_table(columns, np.array([5, 5, 5, 4]), np.array([1, 1, 1, 1]))
    assert table is not None
    assert table.column("c0").to_pylist() == [[9], None, [9], [10]]


@pytest.mark.parametrize(
    ("values", "middle"),
    [
        ((-math.inf, -math.inf), -math.inf),
        ((-math.inf, 1.0), -math.inf),
        ((1.0, math.inf), math.inf),
        ((-math.inf, math.inf), math.nan),
        ((math.nan, 1.0), math.nan),
        ((1.0, 2.0), 1.5),
    ],
)
def test_quantiles_beside_infinities(values: tuple[float, ...], middle: float) -> None:
    """As DuckDB: `lo * (1 - f) + hi * f`."""
    app = f"{STREAM}CREATE QUERY q AS SELECT median(x) AS m FROM s [UNBOUNDED];"
    (line,) = lifetimes(text=app, rows={"s": [("a", 1, x, 0) for x in values]})["q"]
    assert line["m"] == middle or (math.isnan(line["m"]) and math.isnan(middle))
