"""Runs the kernel alone: TaskRuntime without Spark, on blocks as large as a batch of the engine.

Blocks come in and go out as Arrow IPC bytes. Decoding and encoding are measured, making the input is not. Steady state
is defined in kigen_lab.bench.steady.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks
from kigen_lab.bench.lifetimes.data import stream_table
from kigen_lab.bench.lifetimes.queries import PaperQuery, app_text, query_name
from kigen_lab.bench.steady import BatchEnd, steady_rate


@dataclass(frozen=True)
class Encoded:
    """Input of one step: for each stream a block of c0, c1, ... and `_ts` as Arrow IPC bytes."""

    blocks: dict[str, bytes]
    tuples: int
    last: bool


@dataclass(frozen=True)
class KernelRun:
    """Result of one run."""

    tuples: int
    rows: int
    rate: float  # tuples per second in steady state


def run_kernel(query: PaperQuery, kind: str, window: int, lifetime: str, tuples: int, block_rows: int) -> KernelRun:
    kernel = make_kernel(query, kind, window, lifetime)
    given = list(encoded_blocks(query, window, tuples, block_rows))
    ends, rows, done = [], 0, 0
    gc.collect()
    for piece in given:
        rows += step(kernel, query, piece)
        done += piece.tuples
        ends.append(BatchEnd(time.perf_counter(), done))
    return KernelRun(done, rows, steady_rate(ends, window))


def make_kernel(query: PaperQuery, kind: str, window: int, lifetime: str) -> TaskRuntime:
    app = bind(app_text(query, kind, window, {}, None))
    (task,) = extract_tasks(app)
    return TaskRuntime(task, app, lifetime)


def encoded_blocks(query: PaperQuery, window: int, tuples: int, block_rows: int) -> Iterator[Encoded]:
    each, portion = tuples // len(query.streams), max(1, block_rows // len(query.streams))
    for first in range(0, each, portion):
        stop = min(first + portion, each)
        blocks = {stream: _encode(_kernel_table(stream, first, stop, window)) for stream in query.streams}
        yield Encoded(blocks, (stop - first) * len(query.streams), stop == each)


def step(kernel: TaskRuntime, query: PaperQuery, piece: Encoded) -> int:
    """Does one step from bytes to bytes. Returns the number of result rows."""
    inputs = {
        name: StreamInput([pa.ipc.open_stream(block).read_all()], ended=piece.last)
        for name, block in piece.blocks.items()
    }
    result = kernel.step(inputs)
    table = result.outputs.get(query_name(query))
    if table is None:
        return 0
    _encode(table)
    return int(table.num_rows)


def _kernel_table(stream: str, first: int, stop: int, window: int) -> pa.Table:
    """Returns a table as connectors give it: positional names, and the timestamp again as `_ts`."""
    table = stream_table(stream, first, stop, window)
    ts = table["ts"].cast(pa.int64())
    columns = [*(_without_zone(table[name]) for name in ("ca", "cb", "cc")), ts.cast(pa.timestamp("us")), ts]
    return pa.table(columns, names=["c0", "c1", "c2", "c3", "_ts"])


def _without_zone(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.timestamp("us")) if pa.types.is_timestamp(column.type) else column


def _encode(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(memoryview(out.getvalue()))
