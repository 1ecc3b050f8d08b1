"""Tests of SESSION, UNTIL and the bounds of SLIDE windows: a slow reference, both methods, all cuts.

tuples     a  b        c          (a silence of 5 ends a session)
[SESSION]  |-----------)|----)
"""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.plan.binder import bind
from kigen.plan.tasks import extract_tasks

STREAM = "CREATE STREAM s (k BIGINT, u TIMESTAMP, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');\n"
Row = tuple[int, int | None, int]
Line = tuple[object, ...]


def lines(query: str, rows: list[Row], mode: str, pieces: list[int]) -> tuple[list[Line], int]:
    """Runs a query with the rows cut after these numbers of rows. Returns its lines and its late tuples."""
    app = bind(f"{STREAM}CREATE QUERY q AS {query};")
    (task,) = extract_tasks(app)
    runtime = TaskRuntime(task, app, mode)
    found: list[Line] = []
    late = start = 0
    for stop in (*pieces, len(rows)):
        part = rows[start:stop]
        stamps = [pa.array([row[i] for row in part], pa.timestamp("us")) for i in (1, 2)]
        columns = [
            pa.array([row[0] for row in part], pa.int64()),
            *stamps,
            pa.array([row[2] for row in part], pa.int64()),
        ]
        table = pa.table(columns, names=["c0", "c1", "c2", "_ts"])
        result = runtime.step({"s": StreamInput([table], ended=stop == len(rows))})
        late += result.counts["q"]["late"]
        for given in result.outputs.values():
            plain = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in given.columns]
            found += zip(*(c.to_pylist() for c in plain), strict=True)
        saved = runtime.snapshot()
        runtime = TaskRuntime(task, app, mode)
        runtime.restore(saved)
        start = stop
    return sorted(found, key=str), late


@pytest.mark.parametrize("mode", ["dt", "nt"])
def test_a_session_ends_after_the_silence(mode: str) -> None:
    rows: list[Row] = [(1, None, 0), (2, None, 3), (3, None, 8), (4, None, 20)]
    expected = [(1, 0, 8), (2, 3, 8), (3, 8, 13), (4, 20, None)]
    for pieces in ([], [1], [2], [1, 2, 3]):
        found, _ = lines("SELECT k FROM s [SESSION 5 MICROSECONDS]", rows, mode, pieces)
        assert found == expected


@pytest.mark.parametrize("mode", ["dt", "nt"])
def test_until_a_column(mode: str) -> None:
    rows: list[Row] = [(1, 7, 0), (2, None, 1), (3, 2, 2), (4, 1, 3), (5, 4, 3), (6, 90, 9)]
    for pieces in ([], [3], [1, 2, 3, 4, 5]):
        found, late = lines("SELECT k FROM s [UNTIL u]", rows, mode, pieces)
        assert found == [(1, 0, 7), (2, 1, None), (5, 3, 4), (6, 9, 90)]
        assert late == 2


@pytest.mark.parametrize("mode", ["dt", "nt"])
@pytest.mark.parametrize("seed", range(8))
def test_bounds_of_a_slide(mode: str, seed: int) -> None:
    rng = Random(seed)
    size, slide = rng.choice(((10, 5), (5, 5), (7, 3), (2, 6)))
    rows: list[Row] = []
    at = 0
    for _ in range(25):
        at += rng.choice((0, 1, 1, 4, 11))
        rows.append((rng.randint(0, 2), None, at))
    pieces = sorted(rng.sample(range(1, 25), 4))
    query = (
        "SELECT window_start() AS b, k, window_end() AS e, COUNT(*) AS n "
        f"FROM s [RANGE {size} MICROSECONDS SLIDE {slide} MICROSECONDS] GROUP BY ALL"
    )
    found, _ = lines(query, rows, mode, pieces)
    whole, _ = lines(query, rows, "dt", [])
    assert found == whole
    for instant in range(rows[-1][2] + 1):
        first = instant // slide * slide
        alive = [k for k, _, t in rows if -(-t // slide) * slide <= instant < -(-(t + size) // slide) * slide]
        expected = sorted((first, k, first + slide, alive.count(k)) for k in set(alive))
        got = sorted(line[:4] for line in found if line[4] <= instant and (line[5] is None or instant < line[5]))  # type: ignore[operator]
        assert got == expected


def test_star_does_not_show_the_bounds() -> None:
    app = bind(
        f"{STREAM}CREATE QUERY q AS SELECT *, window_end() FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE k > 0;"
    )
    assert [c.name for c in app.queries[0].schema] == ["k", "u", "ts", "window_end()"]
