"""Tables that change, in the kernel: random versions at random steps, against DuckDB at every instant, by DT and NT."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.windows.table_rows import BORN, ROW
from kigen.plan.binder import bind
from kigen.plan.tasks import extract_tasks

RANGE = 4
QUERIES = {
    "met": "SELECT s.k AS k, n, v FROM {s} AS s JOIN t ON s.k = t.k",
    "kept": "SELECT s.n AS n, v FROM {s} AS s LEFT JOIN t ON s.k = t.k AND v > 1",
    "sums": "SELECT v, COUNT(*) AS c, SUM(n) AS total FROM {s} AS s, t WHERE s.k <= t.k GROUP BY v",
    "none": "SELECT t.k AS k, v FROM t ANTI JOIN {s} AS s ON s.k = t.k",
    "rows": "SELECT k FROM {s} AS s EXCEPT SELECT k FROM t",
}
Row = tuple[int, int]


def app_text() -> str:
    queries = "".join(
        f"CREATE QUERY {name} AS {text.format(s=f's [RANGE {RANGE} MICROSECONDS]')};" for name, text in QUERIES.items()
    )
    return (
        "CREATE STREAM s (k BIGINT, n BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');"
        "CREATE TABLE t (k BIGINT, v BIGINT) FROM csv (path = 't.csv') REFRESH EVERY 1 SECONDS;" + queries
    )


class Versions:
    """Numbers the rows of a table, as its files do."""

    def __init__(self) -> None:
        self.alive: dict[int, Row] = {}
        self._next = 0

    def change(self, rng: Random) -> StreamInput:
        dead = [row for row in self.alive if rng.random() < 0.4]
        for row in dead:
            del self.alive[row]
        born = {self._next + i: (rng.randrange(4), rng.randrange(3)) for i in range(rng.randrange(4))}
        self._next += len(born)
        self.alive |= born
        values = [*((None, None) for _ in dead), *born.values()]
        table = pa.table(
            {
                "c0": pa.array([v[0] for v in values], pa.int64()),
                "c1": pa.array([v[1] for v in values], pa.int64()),
                ROW: pa.array([*dead, *born], pa.int64()),
                BORN: pa.array([False] * len(dead) + [True] * len(born), pa.bool_()),
            }
        )
        return StreamInput([table])


def stream_rows(rows: list[tuple[int, int, int]]) -> pa.Table:
    ts = pa.array([at for *_, at in rows], pa.int64())
    columns = {"c0": pa.array([r[0] for r in rows], pa.int64()), "c1": pa.array([r[1] for r in rows], pa.int64())}
    return pa.table({**columns, "c2": ts.cast(pa.timestamp("us")), "_ts": ts})


@pytest.mark.parametrize("mode", ["dt", "nt"])
@pytest.mark.parametrize("seed", range(12))
def test_at_every_instant_the_newest_version_counts(seed: int, mode: str) -> None:
    rng, app = Random(seed), bind(app_text())
    versions, tuples, effects = Versions(), list[tuple[int, int, int]](), list[tuple[int, list[Row]]]()
    kernels = [TaskRuntime(task, app, mode) for task in extract_tasks(app)]
    lines: dict[str, list[dict[str, Any]]] = {name: [] for name in QUERIES}

    def step(**inputs: StreamInput) -> None:
        for place, kernel in enumerate(kernels):
            mine = {name: given for name, given in inputs.items() if name in kernel.task.streams}
            for name, table in kernel.step(mine).outputs.items():
                lines[name] += table.to_pylist()
            if rng.random() < 0.3:  # another worker goes on
                kernels[place] = TaskRuntime(kernel.task, app, mode)
                kernels[place].restore(kernel.snapshot())

    step(t=versions.change(rng))
    effects.append((-1, list(versions.alive.values())))
    now = number = 0
    for _ in range(rng.randrange(3, 12)):
        inputs: dict[str, StreamInput] = {}
        if rng.random() < 0.6:
            inputs["t"] = versions.change(rng)
            effects.append((now, list(versions.alive.values())))
        if rng.random() < 0.8:
            times = sorted(rng.randrange(now, now + 5) for _ in range(rng.randrange(1, 5)))
            added = [(rng.randrange(4), (number := number + 1), at) for at in times]
            tuples += added
            inputs["s"] = StreamInput([stream_rows(added)])
            after = times[-1]
            step(**inputs)
            now = after
        elif inputs:
            step(**inputs)
    last = max((at for *_, at in tuples), default=None)
    step(s=StreamInput(ended=True))
    assert all(kernel.finished for kernel in kernels)
    if last is None:
        return
    with duckdb.connect() as duck:
        duck.execute("CREATE TABLE t (k BIGINT, v BIGINT); CREATE TABLE w (k BIGINT, n BIGINT)")
        for instant in range(last + 1):
            version = next(rows for at, rows in reversed(effects) if at <= instant)
            duck.execute("DELETE FROM t; DELETE FROM w")
            for row in version:
                duck.execute("INSERT INTO t VALUES (?, ?)", row)
            for k, n, at in tuples:
                if at <= instant < at + RANGE:
                    duck.execute("INSERT INTO w VALUES (?, ?)", (k, n))
            for name, text in QUERIES.items():
                expected = Counter(duck.execute(text.format(s="w")).fetchall())
                found = Counter(
                    tuple(v for c, v in line.items() if c.startswith("c"))
                    for line in lines[name]
                    if line["_from"] <= instant and (line["_to"] is None or instant < line["_to"])
                )
                assert found == expected, (name, instant, lines[name])
