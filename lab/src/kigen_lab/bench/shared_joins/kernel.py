"""Runs the kernel alone on a family of joins, and splits its time: matching and state, shares, and delivery of results.

Matching and state is the time of the operators of joins and of the windows below them. A share is the part of a shared
join that belongs to one query. The rest is what every query must do with its results: project and write lines. Time is
taken around each operator's step, from outside.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.joins.join import JoinBase
from kigen.lifetimes.joins.shares import JoinShareOperator
from kigen.lifetimes.windows.negatives import NegativeWindow
from kigen.lifetimes.windows.window_operators import WindowOperator
from kigen.plan.tasks import extract_tasks
from kigen_lab.bench.shared_joins.app import STREAMS, Family, stream_table
from kigen_lab.bench.steady import BatchEnd, steady_rate


@dataclass(frozen=True)
class FamilyRun:
    """Seconds over the whole run; `rate` is tuples per second in steady state."""

    tuples: int
    rows: int
    rate: float
    seconds: float
    join_s: float
    share_s: float
    held: int  # tuples in the state of joins and windows when the input ends


class _Watch:
    """Measures the time of operators."""

    def __init__(self) -> None:
        self.seconds = {"join": 0.0, "share": 0.0}

    def over(self, operator: Any, what: str) -> None:
        operator.step = self._timed(operator.step, what)

    def _timed(self, step: Callable[[Any, int], Any], what: str) -> Callable[[Any, int], Any]:
        def timed(given: Any, now: int) -> Any:
            begin = time.perf_counter()
            result = step(given, now)
            self.seconds[what] += time.perf_counter() - begin
            return result

        return timed


def run_family(family: Family, lifetime: str, each: int, block: int) -> FamilyRun:
    """Runs `each` tuples of each stream, in blocks of `block`."""
    app, watch = family.app(), _Watch()
    kernels = [TaskRuntime(task, app, lifetime) for task in extract_tasks(app)]
    joins = [
        op
        for kernel in kernels
        for op in kernel.operators
        if isinstance(op, (JoinBase, WindowOperator, NegativeWindow))
    ]
    for operator in joins:
        watch.over(operator, "join")
    for share in (op for kernel in kernels for op in kernel.operators if isinstance(op, JoinShareOperator)):
        watch.over(share, "share")
    ends, rows, held, seconds = [], 0, 0, 0.0
    for first in range(0, each, block):
        stop = min(first + block, each)
        tables = {name: _kernel_table(name, first, stop, family.widest) for name in STREAMS}
        gc.collect()
        begin = time.perf_counter()
        for kernel in kernels:
            inputs = {name: StreamInput([table], ended=stop == each) for name, table in tables.items()}
            rows += sum(table.num_rows for table in kernel.step(inputs).outputs.values())
        seconds += time.perf_counter() - begin
        ends.append(BatchEnd(seconds, 2 * stop))
        held = max(held, sum(operator.held for operator in joins))
    return FamilyRun(
        2 * each,
        rows,
        steady_rate(ends, 2 * family.widest),
        seconds,
        watch.seconds["join"],
        watch.seconds["share"],
        held,
    )


def _kernel_table(stream: str, first: int, stop: int, widest: int) -> pa.Table:
    table = stream_table(stream, first, stop, widest)
    ts = table["ts"].cast(pa.int64())
    return pa.table([table["k"], table["v"], ts.cast(pa.timestamp("us")), ts], names=["c0", "c1", "c2", "_ts"])
