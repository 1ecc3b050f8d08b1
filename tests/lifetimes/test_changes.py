"""Changes against lines: applied in order, they give the relation that the lines give, at every instant; and the
sequence of changes does not depend on the method, on cuts into blocks, or on restarts.

    line    a  |----------)            changes   insert a   ...   delete a
    line    b       |----------...                    insert b
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from oracle.compare import lines_of_table
from oracle.drive import MODES, Cutter
from oracle.generate import generate, generate_family
from oracle.render_cql import app_text
from oracle.shapes import App
from seeds import seeds

from kigen.lifetimes import EvaluationError, StreamInput, TaskRuntime
from kigen.lifetimes.joins.sliced_runtime import SlicedRuntime
from kigen.plan import logical
from kigen.plan.binder import bind
from kigen.plan.logical import CHANGES, Connector
from kigen.plan.shared_joins.slices import why_whole
from kigen.plan.tasks import Task, extract_tasks

Change = tuple[int, str, tuple[Any, ...]]


def both(app: App) -> logical.App:
    plan = bind(app_text(app))
    return replace(plan, queries=tuple(replace(query, also=(CHANGES,)) for query in plan.queries))


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [table.column(n) for n in table.column_names if n.startswith("c")]
    plain = [c.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(c.type) else c.to_pylist() for c in columns]
    return [
        tuple("NaN" if v != v else round(v, 6) if isinstance(v, float) else v for v in r)
        for r in zip(*plain, strict=True)
    ]


def changes_of(table: pa.Table) -> list[Change]:
    return list(zip(table["_at"].to_pylist(), table["_op"].to_pylist(), rows_of(table), strict=True))


def run(app: App, plan: logical.App, task: Task, mode: str, rng: Random, style: str) -> dict[str, list[pa.Table]]:
    runtime = TaskRuntime(task, plan, mode)
    cutter = Cutter(app, task.streams, rng, style)
    outputs: dict[str, list[pa.Table]] = {}
    while cutter.open:
        for name, table in runtime.step(cutter.next()).outputs.items():
            outputs.setdefault(name, []).append(table)
        if rng.random() < 0.15:
            saved = runtime.snapshot()
            runtime = TaskRuntime(task, plan, mode)
            runtime.restore(saved)
    return outputs


def relations(lines: list[pa.Table], until: int) -> dict[int, Counter[tuple[Any, ...]]]:
    """Returns the relation at each instant at which a line begins or ends, up to `until`."""
    found = [
        (row, line.at, until + 1 if line.to is None else line.to)
        for table in lines
        for row, line in zip(rows_of(table), lines_of_table(table, _Columns(table)), strict=True)
    ]
    instants = {t for _, begin, end in found for t in (begin, end) if t <= until}
    return {t: Counter(row for row, begin, end in found if begin <= t < end) for t in instants}


class _Columns:
    """Stands for a query of the oracle: as many columns as the table has, none of them special."""

    kind = None

    def __init__(self, table: pa.Table) -> None:
        self.cols = [_Column() for name in table.column_names if name.startswith("c")]


class _Column:
    type = "any"


def check(app: App, plan: logical.App, task: Task, outputs: dict[str, list[pa.Table]]) -> None:
    for query in task.queries:
        lines, changed = outputs.get(query.name, []), outputs.get(f"{query.name}/changes", [])
        changes = [change for table in changed for change in changes_of(table)]
        assert [c[:2] for c in changes] == sorted(c[:2] for c in changes)
        if query.root.is_stream:
            at = [(t, r) for table in lines for t, r in zip(table["_at"].to_pylist(), rows_of(table), strict=True)]
            assert [(c[0], c[2]) for c in changes] == at
            assert {c[1] for c in changes} <= {"insert"}
            continue
        last = max((row[s.ts] for s in app.streams if s.name in query.streams for row in s.rows), default=0)
        wanted = relations(lines, last)
        now: Counter[tuple[Any, ...]] = Counter()
        place = 0
        for instant in sorted(wanted):
            while place < len(changes) and changes[place][0] <= instant:
                _, op, row = changes[place]
                now[row] += 1 if op == "insert" else -1
                assert now[row] >= 0
                place += 1
            assert +now == wanted[instant], f"{query.name} at {instant}"
        assert place == len(changes), "a change where no line begins or ends"


@pytest.mark.parametrize("seed", seeds(15, 25))
def test_changes_rebuild_the_relation(seed: int) -> None:
    app = generate(seed)
    plan = both(app)
    for task in extract_tasks(plan):
        first: dict[str, list[Change]] | None = None
        for mode in MODES:
            for style in ("whole", "mixed", "single"):
                outputs = run(app, plan, task, mode, Random(f"{seed} {mode} {style}"), style)
                check(app, plan, task, outputs)
                changes = {
                    name: [change for table in tables for change in changes_of(table)]
                    for name, tables in outputs.items()
                    if name.endswith("/changes")
                }
                first = changes if first is None else first
                assert changes == first, f"{mode} {style}"


@pytest.mark.parametrize("seed", range(6))
def test_changes_of_slices(seed: int) -> None:
    """Slices that run apart give the changes of a task that runs whole."""
    app = generate_family(seed)
    plan = both(app)
    for task in (task for task in extract_tasks(plan) if why_whole(task) is None):
        whole = run(app, plan, task, "dt", Random(seed), "mixed")
        runtime = SlicedRuntime(task, plan, "dt")
        cutter = Cutter(app, task.streams, Random(seed + 1), "mixed")
        sliced: dict[str, list[pa.Table]] = {}
        while cutter.open:
            for name, table in runtime.step(cutter.next()).outputs.items():
                sliced.setdefault(name, []).append(table)
        for name, tables in whole.items():
            if name.endswith("/changes"):
                assert [c for t in tables for c in changes_of(t)] == [c for t in sliced[name] for c in changes_of(t)]


KEYED = """
CREATE STREAM s (k STRING, v BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');
CREATE QUERY q AS {query};
"""


def keyed(query: str, mode: str = "dt", key: str = "k") -> TaskRuntime:
    plan = bind(KEYED.format(query=query))
    into = Connector("kafka", (("mode", "upsert"), ("key", key)))
    plan = replace(plan, queries=tuple(replace(q, into=into) for q in plan.queries))
    (task,) = extract_tasks(plan)
    return TaskRuntime(task, plan, mode)


def rows(*values: tuple[str | None, int, int], progress: int | None = None) -> dict[str, StreamInput]:
    k, v, ts = (list(c) for c in zip(*values, strict=True)) if values else ([], [], [])
    stamps = pa.array(ts, pa.int64())
    table = pa.table(
        {
            "c0": pa.array(k, pa.string()),
            "c1": pa.array(v, pa.int64()),
            "c2": stamps.cast(pa.timestamp("us")),
            "_ts": stamps,
        }
    )
    return {"s": StreamInput([table], progress_us=progress)}


def told(runtime: TaskRuntime, given: dict[str, StreamInput]) -> list[Change]:
    table = runtime.step(given).outputs.get("q")
    return [] if table is None else changes_of(table)


@pytest.mark.parametrize("mode", MODES)
def test_a_death_is_told_when_time_passes_it_and_asks_for_a_step(mode: str) -> None:
    runtime = keyed("SELECT k, v FROM s [RANGE 10 SECONDS]", mode)
    assert told(runtime, rows(("a", 1, 5), progress=6)) == [(5, "insert", ("a", 1))]
    result = runtime.step(rows(progress=7))
    assert result.next_event_us == 10_000_005
    assert told(runtime, rows(progress=10_000_005)) == []
    assert told(runtime, rows(progress=10_000_006)) == [(10_000_005, "delete", ("a", 1))]


@pytest.mark.parametrize("mode", MODES)
def test_delete_and_insert_of_a_key_are_one_update(mode: str) -> None:
    runtime = keyed("SELECT k, SUM(v) AS total FROM s [ROWS 2] GROUP BY k", mode)
    assert told(runtime, rows(("a", 1, 1), ("a", 2, 2), ("b", 5, 3), progress=4)) == [
        (1, "insert", ("a", 1)),
        (2, "insert", ("a", 3)),
        (3, "insert", ("a", 2)),
        (3, "insert", ("b", 5)),
    ]
    saved = runtime.snapshot()
    runtime = keyed("SELECT k, SUM(v) AS total FROM s [ROWS 2] GROUP BY k", mode)
    runtime.restore(saved)
    assert told(runtime, rows(("b", 7, 5), progress=6)) == [(5, "delete", ("a", 2)), (5, "insert", ("b", 12))]
    assert told(runtime, rows(("a", 9, 8), progress=9)) == [(8, "insert", ("a", 9)), (8, "insert", ("b", 7))]


@pytest.mark.parametrize("mode", MODES)
def test_two_rows_of_a_key_end_the_run_and_name_it(mode: str) -> None:
    runtime = keyed("SELECT k, v FROM s [ROWS 3]", mode)
    told(runtime, rows(("a", 1, 1), ("b", 1, 2), progress=3))
    wanted = (
        "query q: two rows have the key k = 'a' at 1970-01-01T00:00:00.000004Z; mode 'upsert' needs one row per key"
    )
    with pytest.raises(EvaluationError, match=re.escape(wanted)):
        told(runtime, rows(("a", 2, 4), progress=5))


def test_null_in_a_key_is_an_error() -> None:
    runtime = keyed("SELECT k, v FROM s [ROWS 3]")
    with pytest.raises(EvaluationError, match="the key k is NULL at 1970-01-01"):
        told(runtime, rows((None, 1, 1), progress=3))
