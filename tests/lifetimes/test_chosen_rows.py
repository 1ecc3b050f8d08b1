"""Aggregates that choose one row, and LIMIT n BY, against DuckDB at every instant: equal keys, NULLs, infinities, long
texts, and rows that die in any order or all at once. With regions so small that rows move again and again."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.aggregates import arranged_rows
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks

STREAM = (
    "CREATE STREAM s (k STRING, v DOUBLE, t STRING, u TIMESTAMP, ts TIMESTAMP) TIMESTAMP BY ts "
    "FROM csv (path = 's.csv');\n"
)
ROWS, SECOND = 220, 1_000_000
NEVER = 10**15
ALL = "k, v, t, u, ts"
PLAIN = (
    "MIN(v) AS a, MAX(v) AS b, MIN(t) AS c, MAX(t) AS d, {arg_max} AS e, {arg_min} AS f, {first} AS g, {last} AS h, "
    "{ordered} AS i, {filtered} AS j"
)
CHOSEN_CQL = PLAIN.format(
    arg_max="arg_max(t, v)",
    arg_min="arg_min(v, t)",
    first="first(t)",
    last="last(v)",
    ordered="last(t ORDER BY v)",
    filtered="first(v) FILTER (WHERE v > 0)",
)
_THERE = "FILTER (WHERE v IS NOT NULL AND t IS NOT NULL)"
_LAST_OF_ALL = ", ".join(f"{column} DESC NULLS FIRST" for column in ALL.split(", "))
CHOSEN_SQL = PLAIN.format(
    arg_max=f"first(t ORDER BY v DESC NULLS LAST, {ALL}) {_THERE}",
    arg_min=f"first(v ORDER BY t, {ALL}) {_THERE}",
    first=f"first(t ORDER BY born, {ALL})",
    last=f"first(v ORDER BY born DESC, {_LAST_OF_ALL})",
    ordered=f"first(t ORDER BY v DESC NULLS FIRST, {_LAST_OF_ALL})",
    filtered=f"first(v ORDER BY born, {ALL}) FILTER (WHERE v > 0)",
)
QUERIES = {
    "groups": (
        f"SELECT k, {CHOSEN_CQL} FROM {{w}} GROUP BY k",
        f"SELECT instant, k, {CHOSEN_SQL} FROM alive GROUP BY instant, k",
    ),
    "one": (
        f"SELECT {CHOSEN_CQL}, COUNT(*) AS n FROM {{w}} HAVING COUNT(*) > 0",
        f"SELECT instant, {CHOSEN_SQL}, COUNT(*) AS n FROM alive GROUP BY instant",
    ),
    "by": (
        "SELECT DISTINCT k, v, t FROM {w} ORDER BY v DESC LIMIT 2 OFFSET 1 BY (k)",
        "SELECT instant, k, v, t FROM (SELECT DISTINCT instant, k, v, t FROM alive) QUALIFY ROW_NUMBER() OVER "
        "(PARTITION BY instant, k ORDER BY v DESC NULLS LAST, t NULLS LAST) BETWEEN 2 AND 3",
    ),
}
WINDOWS = {"range": "s [RANGE 40 SECONDS]", "rows": "s [ROWS 60]", "until": "s [UNTIL u]"}
SHAPES = ("equal", "special", "rising", "falling", "few")
Tuple = tuple[str, float | None, str | None, int, int]


def tuples(shape: str, rng: Random) -> list[Tuple]:
    """Returns rows in bursts of one instant. `u` is one of few instants, so that many rows die together."""
    out: list[Tuple] = []
    at = 0
    for i in range(ROWS):
        at += rng.choice((0, 0, 0, 1, 2)) * SECOND
        v = {
            "equal": 1.5,
            "special": rng.choice((None, math.inf, -math.inf, math.nan, 0.0, 1.0, -1.0)),
            "rising": float(i),
            "falling": float(-i),
            "few": rng.choice((None, 1.0, 2.0)),
        }[shape]
        t = rng.choice((None, "", "b", f"a long common beginning {rng.randint(0, 5)}", f"a long common beginning {i}"))
        u = (at // (25 * SECOND) + rng.randint(1, 3)) * 25 * SECOND
        out.append((rng.choice("aaab"), v, t, u, at))
    return out


def lives(rows: list[Tuple], window: str) -> list[tuple[int, int]]:
    if window == "range":
        return [(row[4], row[4] + 40 * SECOND) for row in rows]
    if window == "until":
        return [(row[4], row[3]) for row in rows]
    return [(row[4], rows[i + 60][4] if i + 60 < ROWS else NEVER) for i, row in enumerate(rows)]


def instants_of(rows: list[Tuple], window: str) -> list[int]:
    last = rows[-1][4]
    return sorted({at for life in lives(rows, window) for at in life if at <= last})


def wanted(rows: list[Tuple], window: str, sql: str) -> dict[int, list[str]]:
    table = [
        (instant, *row, born)
        for instant in instants_of(rows, window)
        for row, (born, dies) in zip(rows, lives(rows, window), strict=True)
        if born <= instant < dies
    ]
    columns = zip(*table, strict=True)
    names = ("instant", *ALL.split(", "), "born")
    kinds = (pa.int64(), pa.string(), pa.float64(), pa.string(), pa.int64(), pa.int64(), pa.int64())
    alive = pa.table({n: pa.array(list(c), kind) for n, c, kind in zip(names, columns, kinds, strict=True)})
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1; SET default_null_order = 'nulls_last'")
        connection.register("alive", alive)
        found: dict[int, list[str]] = {}
        for instant, *values in connection.execute(sql).fetchall():
            found.setdefault(instant, []).append(_shown(values))
    return {instant: sorted(lines) for instant, lines in found.items()}


def _shown(values: list[Any]) -> str:
    return repr([value + 0.0 if isinstance(value, float) else value for value in values])


def lines_of(rows: list[Tuple], cql: str, mode: str, rng: Random) -> list[tuple[str, int, int]]:
    app = bind(f"{STREAM}CREATE QUERY q AS {cql};")
    (task,) = extract_tasks(app)
    runtime = TaskRuntime(task, app, mode)
    out: list[tuple[str, int, int]] = []
    start = 0
    while start < ROWS:
        stop = min(ROWS, start + rng.choice((1, 3, 20, 80)))
        k, v, t, u, at = (list(column) for column in zip(*rows[start:stop], strict=True))
        table = pa.table(
            {
                "c0": pa.array(k, pa.string()),
                "c1": pa.array(v, pa.float64()),
                "c2": pa.array(t, pa.string()),
                "c3": pa.array(u, pa.timestamp("us")),
                "c4": pa.array(at, pa.timestamp("us")),
                "_ts": pa.array(at, pa.int64()),
            }
        )
        for found in runtime.step({"s": StreamInput([table], ended=stop == ROWS)}).outputs.values():
            for *values, born, dies in zip(*(column.to_pylist() for column in found.columns), strict=True):
                out.append((_shown(values), born, NEVER if dies is None else dies))
        start = stop
        if rng.random() < 0.2:
            saved = runtime.snapshot()
            runtime = TaskRuntime(task, app, mode)
            runtime.restore(saved)
    return out


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("shape", SHAPES)
def test_against_duckdb_at_every_instant(shape: str, window: str, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arranged_rows, "_SLACK", 4)
    rng = Random(f"{shape} {window} {query}")
    rows = tuples(shape, rng)
    cql, sql = QUERIES[query]
    expected = wanted(rows, window, sql)
    assert len(expected) > 50
    for mode in ("dt", "nt"):
        lines = lines_of(rows, cql.format(w=WINDOWS[window]), mode, rng)
        for instant in instants_of(rows, window):
            found = sorted(line for line, born, dies in lines if born <= instant < dies)
            assert found == expected.get(instant, []), (mode, instant)
