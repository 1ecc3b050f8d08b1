"""Tests ROW_NUMBER, RANK, DENSE_RANK, LAG and LEAD against a slow reference, also with layouts so small that every
instant has its own; and the plans of QUALIFY."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from oracle.drive import judged_newer

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.sets import over
from kigen.plan.binder import bind
from kigen.plan.logical import Over, TopN
from kigen.plan.tasks import extract_tasks

STREAM = "CREATE STREAM s (k BIGINT, v BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');\n"
WINDOW = 40
NUMBERS = (
    "SELECT v, ROW_NUMBER() OVER (ORDER BY v DESC) AS n, RANK() OVER (ORDER BY v DESC) AS r,"
    " DENSE_RANK() OVER (ORDER BY v DESC) AS d, LAG(k, 2, -1) OVER (ORDER BY v DESC) AS g,"
    f" LEAD(v) OVER (ORDER BY v DESC) AS f FROM (SELECT k, v FROM s [ROWS {WINDOW}])"
)
Row = tuple[int, int]  # k, v


@pytest.fixture
def small_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over, "_MOST_PLACES", 1)


def reference(alive: list[Row]) -> list[tuple[int | None, ...]]:
    """Returns the rows of NUMBERS over the live rows."""
    rows = sorted(alive, key=lambda row: (-row[1], row[0]))
    values = [v for _, v in rows]
    return [
        (
            v,
            i + 1,
            values.index(v) + 1,
            len({w for w in values if w > v}) + 1,
            rows[i - 2][0] if i >= 2 else -1,
            values[i + 1] if i + 1 < len(values) else None,
        )
        for i, v in enumerate(values)
    ]


def lines_of(query: str, rows: list[Row], mode: str, rng: Random) -> list[tuple[tuple[int | None, ...], int, int]]:
    app = bind(f"{STREAM}CREATE QUERY q AS {query};")
    (task,) = extract_tasks(app)
    runtime = TaskRuntime(task, app, mode)
    lines = []
    start = 0
    while start < len(rows):
        stop = min(len(rows), start + rng.choice((1, 5, 60)))
        times = np.arange(start, stop) * 10
        k, v = zip(*rows[start:stop], strict=True)
        table = pa.table({"c0": k, "c1": v, "c2": pa.array(times).cast(pa.timestamp("us")), "_ts": times})
        for found in runtime.step({"s": StreamInput([table], ended=stop == len(rows))}).outputs.values():
            for *row, born, dies in zip(*(column.to_pylist() for column in found.columns), strict=True):
                lines.append((tuple(row), born, 10**9 if dies is None else dies))
        start = stop
        if rng.random() < 0.2:
            saved = runtime.snapshot()
            runtime = TaskRuntime(task, app, mode)
            runtime.restore(saved)
    return lines


@pytest.mark.parametrize("mode", ["dt", "nt"])
@pytest.mark.parametrize("different", [3, 1000])
@pytest.mark.parametrize("most", [1, 500, 1 << 20])
def test_numbers_against_a_loop(mode: str, different: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over, "_MOST_PLACES", most)
    rng = Random(f"{mode} {different} {most}")
    rows = [(rng.randint(0, 2), rng.randint(0, different)) for _ in range(250)]
    lines = lines_of(NUMBERS, rows, mode, rng)
    for i in range(len(rows)):
        found = sorted(repr(row) for row, born, dies in lines if born <= i * 10 < dies)
        assert found == sorted(repr(row) for row in reference(rows[max(0, i + 1 - WINDOW) : i + 1]))


@pytest.mark.usefixtures("small_layouts")
@pytest.mark.parametrize("seed", range(200, 220))
def test_random_apps_with_small_layouts(seed: int) -> None:
    report = judged_newer(seed)
    assert not report, report


def test_an_equal_row_takes_over_without_a_cut() -> None:
    rows = [(0, 1)] * 100
    for mode in ("dt", "nt"):
        query = "SELECT v, ROW_NUMBER() OVER (ORDER BY v) AS n FROM s [ROWS 3]"
        lines = lines_of(query.replace("s [ROWS 3]", "(SELECT k, v FROM s [ROWS 3])"), rows, mode, Random(1))
        assert sorted(lines) == [((1, n), (n - 1) * 10, 10**9) for n in (1, 2, 3)]


def plan(body: str) -> set[type]:
    (query,) = bind(f"{STREAM}CREATE QUERY q AS {body};").queries
    return {type(node) for node in query.root.walk()} & {Over, TopN}


@pytest.mark.parametrize(
    ("body", "nodes"),
    [
        ("SELECT k, v FROM s [NOW] QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) <= 2", {TopN}),
        ("SELECT * FROM s [NOW] QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v * 2) = 1", {TopN}),
        (
            "SELECT k, COUNT(*) AS n FROM s [NOW] GROUP BY k QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*), n) < 3",
            {TopN},
        ),
        ("SELECT k FROM s [NOW] QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) <= 2", {Over}),
        ("SELECT k + 1 AS k, v FROM s [NOW] QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) <= 2", {Over}),
        ("SELECT DISTINCT k, v FROM s [NOW] QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) <= 2", {Over}),
        ("SELECT k, v FROM s [NOW] QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) >= 2", {Over}),
        ("SELECT k, v FROM s [NOW] QUALIFY RANK() OVER (PARTITION BY k ORDER BY v) <= 2", {Over}),
    ],
)
def test_only_the_first_rows_of_groups_need_no_numbers(body: str, nodes: set[type]) -> None:
    assert plan(body) == nodes


def test_calls_with_one_over_share_a_node() -> None:
    body = "SELECT LAG(v) OVER (ORDER BY ts), lead(v) over (order by TS), LAG(v) OVER (ORDER BY ts) + 1 FROM s [NOW]"
    (query,) = bind(f"{STREAM}CREATE QUERY q AS {body};").queries
    (node,) = [node for node in query.root.walk() if isinstance(node, Over)]
    assert len(node.calls) == 2


def test_group_by_all_leaves_functions_with_over_out() -> None:
    body = "SELECT k, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) AS r FROM s [NOW] GROUP BY {}"
    one, other = (bind(f"{STREAM}CREATE QUERY q AS {body.format(by)};").queries[0] for by in ("ALL", "k"))
    assert one.root == other.root
