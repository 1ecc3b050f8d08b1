"""Runs the kernel alone on the queries of `kigen bench joins`: bids per second, pairs looked at, and peak memory.

Input and output are tables; neither encoding nor files are measured. `python -m kigen_lab.bench.joins.kernel QUERY
LIFETIME BIDS` prints JSON.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.joins.join import JoinBase
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks
from kigen_lab.bench.joins.app import BY_QUERY, JoinQuery, bids_table, kernel_table, side_table

BLOCK_ROWS = 100_000
Give = Callable[[str, pa.Table], None]


def make_kernel(text: str, lifetime: str) -> TaskRuntime:
    app = bind(text)
    (task,) = extract_tasks(app)
    return TaskRuntime(task, app, lifetime)


def pairs_formed(kernel: TaskRuntime) -> int:
    """Returns how many pairs the kernel's joins have looked at."""
    return sum(operator.formed for operator in kernel.operators if isinstance(operator, JoinBase))


def run_query(query: JoinQuery, lifetime: str, bids: int, block: int = BLOCK_ROWS) -> dict[str, Any]:
    kernel = make_kernel(query.app_text({}), lifetime)
    rows, seconds = 0, 0.0

    def count(_: str, table: pa.Table) -> None:
        nonlocal rows
        rows += table.num_rows

    for first in range(0, bids, block):
        stop = min(first + block, bids)
        inputs = {"bids": StreamInput([kernel_table(bids_table(first, stop))], ended=stop == bids)}
        if first == 0 and "side" in query.streams:
            inputs["side"] = StreamInput([kernel_table(side_table())], ended=True)
        gc.collect()
        begin = time.perf_counter()
        kernel.step(inputs, count)
        seconds += time.perf_counter() - begin
    return {
        "query": query.query,
        "lifetime": lifetime,
        "bids": bids,
        "rows": rows,
        "seconds": round(seconds, 4),
        "rate": round(bids / seconds),
        "pairs_formed": pairs_formed(kernel),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def run_apart(query: JoinQuery, lifetime: str, bids: int) -> dict[str, Any]:
    """Does the same in a process of its own."""
    command = [sys.executable, "-m", "kigen_lab.bench.joins.kernel", query.query, lifetime, str(bids)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {
            "query": query.query,
            "lifetime": lifetime,
            "bids": bids,
            "rate": None,
            "why": f"exit code {done.returncode}: {why}",
        }
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


if __name__ == "__main__":
    name, lifetime_, bids_ = sys.argv[1:]
    run_query(BY_QUERY[name], lifetime_, 2_000)  # libraries load on first use
    print(json.dumps(run_query(BY_QUERY[name], lifetime_, int(bids_))))
