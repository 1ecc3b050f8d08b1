"""Rows that live throughout a step and cannot be chosen are left out: the lines must be those of a kernel that sorts all
rows, and choosing must agree with sorting."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.aggregates import aggregate, living
from kigen.lifetimes.sweeps import standing
from kigen.lifetimes.sweeps.tournament import Tournament
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks

STREAM = "CREATE STREAM s (k STRING, v DOUBLE, n BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');\n"
QUERIES = {
    "quantiles": "SELECT k, MEDIAN(v) AS m, quantile_cont(v, 0.9) AS q, quantile_cont(n, 0.0) AS z FROM {w} GROUP BY k",
    "extremes": "SELECT k, MIN(v) AS a, MAX(v) AS b, MIN(n) AS c FROM {w} GROUP BY k",
    "choices": "SELECT k, arg_max(n, v) AS a, arg_min(n, v) AS b, first(n) AS c, last(n) AS d, last(v ORDER BY n) AS e "
    "FROM {w} GROUP BY k",
    "global": "SELECT MEDIAN(v) AS m, MAX(n) AS b, last(v) AS d FROM {w}",
    "mixed": "SELECT k, MAX(v) AS b, MEDIAN(v) AS m, last(n) AS d FROM {w} GROUP BY k",
    "filtered": "SELECT k, first(v) FILTER (WHERE n > 25) AS a, arg_max(k, n) FILTER (WHERE v < 0) AS b, COUNT(*) AS c "
    "FROM {w} GROUP BY k",
    "first": "SELECT * FROM {w} ORDER BY v DESC LIMIT 3 OFFSET 1 BY (k)",
    "texts": "SELECT n, MIN(k) AS a, MAX(k) AS b FROM {w} GROUP BY n",
}
WINDOWS = {"range": "s [RANGE 900 SECONDS]", "rows": "s [ROWS 900]"}
ROWS = 2_500


def _table(trend: float) -> pa.Table:
    rng = np.random.default_rng(7)
    values = [
        None if rng.random() < 0.05 else float(v) for v in rng.normal(size=ROWS).round(2) + trend * np.arange(ROWS)
    ]
    at = np.arange(ROWS) * 1_000_000
    numbers = rng.integers(0, 50, ROWS)
    return pa.table(
        {
            "c0": pa.array(rng.choice(["a", "b", "", "bb"], ROWS, p=[0.5, 0.46, 0.02, 0.02]).tolist(), pa.string()),
            "c1": pa.array(values, pa.float64()),
            "c2": pa.array(numbers),
            "c3": pa.array(at, pa.int64()).cast(pa.timestamp("us")),
            "_ts": pa.array(at, pa.int64()),
        }
    )


def _lines(query: str, window: str, mode: str, table: pa.Table) -> list[tuple[object, ...]]:
    app = bind(f"{STREAM}CREATE QUERY q AS {QUERIES[query].format(w=WINDOWS[window])};")
    (task,) = extract_tasks(app)
    runtime, rng, begin, found = TaskRuntime(task, app, mode), Random(3), 0, []
    while begin < ROWS:
        stop = min(ROWS, begin + rng.choice((20, 100, 400)))
        result = runtime.step({"s": StreamInput([table.slice(begin, stop - begin)], ended=stop == ROWS)})
        for output in result.outputs.values():
            found += list(zip(*(column.to_pylist() for column in output.columns), strict=True))
        begin = stop
    return sorted(found, key=repr)


def _sort_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the kernel look at all live rows of the groups that change."""
    monkeypatch.setattr(standing, "MANY", 1 << 60)
    monkeypatch.setattr(living, "MANY", 1 << 60)
    monkeypatch.setattr(aggregate, "CHOSEN", ())
    first = Tournament.first
    monkeypatch.setattr(Tournament, "first", lambda self, group, count: first(self, group, 1 << 60))


@pytest.mark.parametrize("trend", [0.0, 0.01])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("query", QUERIES)
def test_lines_are_those_of_sorting_everything(
    query: str, window: str, trend: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _table(trend)
    monkeypatch.setattr(standing, "MANY", 16)
    monkeypatch.setattr(living, "MANY", 16)
    lines = [_lines(query, window, mode, table) for mode in ("dt", "nt")]
    _sort_everything(monkeypatch)
    lines += [_lines(query, window, mode, table) for mode in ("dt", "nt")]
    assert len(lines[0]) > 20
    assert lines[0] == lines[1] == lines[2] == lines[3]


@pytest.mark.parametrize("seed", range(20))
def test_choosing_agrees_with_sorting(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "MANY", 8)
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(0, 400))
    stands, group, value = rng.random(rows) < 0.9, rng.integers(0, 3, rows), rng.integers(0, 60, rows)
    least = standing.least_standing(stands, group, value)
    fraction = float(rng.choice((0.0, 0.3, 0.5, 1.0)))
    moving = np.bincount(group[~stands], minlength=3)
    bands = standing.Bands.certain(stands, group, value, moving, fraction)
    assert least[~stands].all()
    for g in range(3):
        mine, ordered = group == g, np.sort(value[(group == g) & stands])
        if len(ordered):
            assert value[mine & stands & least].min() == ordered[0]
        for alive in (mine & stands, mine, mine & (stands | (rng.random(rows) < 0.5))):
            everything = np.sort(value[alive])
            for place in (fraction * (len(everything) - 1),) if len(everything) else ():
                assert bands.low[g] <= everything[int(place)] <= everything[int(np.ceil(place))] <= bands.high[g]
