"""Measures the join of two aggregates by one key that all tuples share.

There are n versions on each side, and each meets one or two of the other. Time is taken around the join operator alone,
and around whole steps. A trial repeats small runs, so that it is long enough to measure.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.lifetimes import StreamInput
from kigen.lifetimes.joins.join import JoinBase
from kigen_lab.bench.joins.kernel import make_kernel, pairs_formed
from kigen_lab.bench.lifetimes.data import START_US

BLOCK_ROWS = 100_000  # per stream
_LEAST = 50_000  # versions per side and trial
_APART_US = 1_000
_COLUMNS = "(k BIGINT, v BIGINT, ts TIMESTAMP)"
APP = (
    "".join(f"CREATE STREAM {s} {_COLUMNS} TIMESTAMP BY ts FROM parquet (path = '{s}');\n" for s in ("l", "r"))
    + "CREATE QUERY q AS SELECT a.k, a.n, b.total FROM (SELECT k, COUNT(*) AS n FROM l [UNBOUNDED] GROUP BY k) AS a "
    + "JOIN (SELECT k, SUM(v) AS total FROM r [UNBOUNDED] GROUP BY k) AS b ON a.k = b.k;\n"
)


@dataclass(frozen=True)
class VersionsRun:
    """Microseconds per version, of both sides together."""

    join_us: float
    kernel_us: float
    rows: int
    pairs_formed: int


class _Clock:
    """Measures the time of one operator."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def over(self, operator: Any) -> None:
        operator.pieces = self._around(operator.pieces)

    def _around(self, pieces: Callable[[Any, int], Iterator[Any]]) -> Callable[[Any, int], Iterator[Any]]:
        """Counts time while the operator makes a piece, not while later operators use it."""

        def timed(inputs: Any, now: int) -> Iterator[Any]:
            made = pieces(inputs, now)
            while True:
                begin = time.perf_counter()
                piece = next(made, None)
                self.seconds += time.perf_counter() - begin
                if piece is None:
                    return
                yield piece

        return timed


def run_versions(n: int, lifetime: str) -> VersionsRun:
    """Does one trial."""
    repeats = max(1, _LEAST // n)
    runs = [_once(n, lifetime) for _ in range(repeats)]
    return VersionsRun(
        sum(r.join_us for r in runs) / repeats,
        sum(r.kernel_us for r in runs) / repeats,
        runs[0].rows,
        runs[0].pairs_formed,
    )


def _once(n: int, lifetime: str) -> VersionsRun:
    kernel, clock = make_kernel(APP, lifetime), _Clock()
    for operator in kernel.operators:
        if isinstance(operator, JoinBase):
            clock.over(operator)
    rows, seconds = 0, 0.0
    for first in range(0, n, BLOCK_ROWS):
        stop = min(first + BLOCK_ROWS, n)
        inputs = {
            name: StreamInput([_table(side, first, stop)], ended=stop == n) for side, name in enumerate(("l", "r"))
        }
        if n >= BLOCK_ROWS:
            gc.collect()
        begin = time.perf_counter()
        result = kernel.step(inputs)
        seconds += time.perf_counter() - begin
        rows += sum(table.num_rows for table in result.outputs.values())
    return VersionsRun(clock.seconds / (2 * n) * 1e6, seconds / (2 * n) * 1e6, rows, pairs_formed(kernel))


def _table(side: int, first: int, stop: int) -> pa.Table:
    """Returns left and right tuples in turns."""
    number = np.arange(first, stop, dtype=np.int64)
    ts = pa.array(START_US + (2 * number + side) * _APART_US)
    columns = [pa.array(np.full(len(number), 7)), pa.array(number % 97 + 1), ts.cast(pa.timestamp("us")), ts]
    return pa.table(columns, names=["c0", "c1", "c2", "_ts"])


def summary(n: int, lifetime: str, runs: list[VersionsRun]) -> dict[str, Any]:
    return {
        "lifetime": lifetime,
        "versions": n,
        "join_us": round(median(r.join_us for r in runs), 4),
        "kernel_us": round(median(r.kernel_us for r in runs), 4),
        "pairs_formed_per_version": round(runs[0].pairs_formed / (2 * n), 3),
        "rows": runs[0].rows,
        "trials": [{"join_us": round(r.join_us, 4), "kernel_us": round(r.kernel_us, 4)} for r in runs],
    }


def flatness(cells: list[dict[str, Any]], key: str = "join_us") -> dict[str, float]:
    """Returns the cost of a version with the most versions over that with the fewest, by method."""
    found = {}
    for lifetime in dict.fromkeys(cell["lifetime"] for cell in cells):
        mine = sorted((cell["versions"], cell[key]) for cell in cells if cell["lifetime"] == lifetime)
        found[lifetime] = round(mine[-1][1] / mine[0][1], 3)
    return found


def growth(cells: list[dict[str, Any]], key: str = "join_us") -> dict[str, float]:
    """Returns the cost of a version with the most versions over the least cost of a version.

    Few versions hardly pay for the fixed cost of a step.
    """
    found = {}
    for lifetime in dict.fromkeys(cell["lifetime"] for cell in cells):
        mine = [(cell["versions"], cell[key]) for cell in cells if cell["lifetime"] == lifetime]
        found[lifetime] = round(max(mine)[1] / min(cost for _, cost in mine), 3)
    return found
