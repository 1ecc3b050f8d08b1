"""Runs small random bids with many ties through the kernel in random blocks, for tests of joins against DuckDB."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
from kigen_lab.bench.joins.app import BY_QUERY, JoinQuery, kernel_table
from kigen_lab.bench.joins.judge import Judge
from kigen_lab.bench.lifetimes.data import START_US

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks

STEP_US = 1_000_000
DAY_US = 86_400_000_000
ARROW = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "VARCHAR": pa.string(), "TIMESTAMP": pa.timestamp("us")}
Lines = pa.Table


def random_bids(rng: Random, count: int, auctions: int = 4) -> pa.Table:
    """Draws bids in the order of time, several per instant, around midnight, so that there are two days."""
    ts = START_US + DAY_US - count * STEP_US // 2
    rows = []
    for _ in range(count):
        ts += rng.choice((0, 0, 1, 1, 2, 5)) * STEP_US
        auction = rng.choice((0, rng.randrange(auctions)))  # the first one is hot
        rows.append((auction, rng.randrange(5), rng.choice((1, 2, 3, 5, 8, 1_000_000)), "web", "", ts))
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    columns[-1] = columns[-1].cast(pa.timestamp("us", "UTC"))
    return pa.table(columns, names=["auction", "bidder", "price", "channel", "note", "ts"])


def random_side(rng: Random, rows: int) -> pa.Table:
    """Draws rows of one instant; some keys occur twice, some not at all."""
    keys = [rng.randrange(rows) for _ in range(rows)]
    ts = pa.array([START_US] * rows).cast(pa.timestamp("us", "UTC"))
    return pa.table([pa.array(keys), pa.array([f"label {i}" for i in range(rows)]), ts], names=["key", "label", "ts"])


def windowed(query: JoinQuery, range_us: int | None) -> JoinQuery:
    """Returns the query over a window that ends, instead of an UNBOUNDED one."""
    window = "[UNBOUNDED]" if range_us is None else f"[RANGE {range_us // 1_000_000} SECONDS]"
    return replace(query, cql=query.cql.replace("bids [UNBOUNDED]", f"bids {window}"))


def few_keys(query: JoinQuery, keys: int) -> JoinQuery:
    """Reduces a computed key to so few values that small data has equal ones."""
    return replace(query, cql=query.cql.replace("% 10000", f"% {keys}"), sql=query.sql.replace("% 10000", f"% {keys}"))


def named(name: str) -> JoinQuery:
    return few_keys(BY_QUERY[name], 3)


def make_kernel(query: JoinQuery, mode: str) -> TaskRuntime:
    app = bind(query.app_text({}))
    (task,) = extract_tasks(app)
    return TaskRuntime(task, app, mode)


def run_bids(
    query: JoinQuery, mode: str, bids: pa.Table, side: pa.Table | None = None, rng: Random | None = None
) -> Lines:
    """Returns the columns of the result by name, with `_from` and `_to`. Without `rng` the input is one block. With it,
    blocks are random, and from time to time the kernel is saved and another one continues."""
    kernel = make_kernel(query, mode)
    tables: list[pa.Table] = []
    given = kernel_table(bids)
    at = 0
    while at < given.num_rows:
        stop = given.num_rows if rng is None else min(given.num_rows, at + rng.choice((1, 2, 7, 40)))
        inputs = {"bids": StreamInput([given.slice(at, stop - at)], ended=stop == given.num_rows)}
        if at == 0 and "side" in query.streams:
            assert side is not None
            inputs["side"] = StreamInput([kernel_table(side)], ended=True)
        tables += kernel.step(inputs).outputs.values()
        at = stop
        if rng is not None and rng.random() < 0.1:
            saved, kernel = kernel.snapshot(), make_kernel(query, mode)
            kernel.restore(saved)
    names = [*(name for name, _ in query.columns), "_from", "_to"]
    if not tables:
        kinds = [*(ARROW[kind] for _, kind in query.columns), pa.int64(), pa.int64()]
        return pa.table([pa.array([], kind) for kind in kinds], names=names)
    return pa.concat_tables(tables).rename_columns(names)


def wrong(
    query: JoinQuery, lines: Lines, bids: pa.Table, side: pa.Table | None, rng: Random, range_us: int | None = None
) -> list[str]:
    """Compares the lines with DuckDB's answer, at the last instant and some others."""
    times = sorted(set(bids["ts"].cast(pa.int64()).to_pylist()))
    instants = {
        times[-1],
        *rng.sample(times, min(8, len(times))),
        *(t - 1 for t in rng.sample(times, min(3, len(times)))),
    }
    judge = Judge("bids", None if side is None else "side", range_us=range_us)
    judge.register("bids", bids)
    judge.register("lines", lines)
    if side is not None:
        judge.register("side", side)
    try:
        return judge.disagreements(query, "SELECT * FROM lines", sorted(instants))
    finally:
        judge.close()


def sorted_lines(lines: Lines) -> list[tuple[object, ...]]:
    rows = zip(*(column.to_pylist() for column in lines.columns), strict=True)
    return sorted(rows, key=repr)
