"""A process that fills one query's state with some 500 MB, and prints what it holds by its own accounting and by the
system's."""

from __future__ import annotations

import ctypes
import gc
import json
import sys

import numpy as np
import pyarrow as pa

from kigen.lifetimes.intake import StreamInput
from kigen.lifetimes.runtime import TaskRuntime
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks

STREAMS = """
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price DOUBLE, note STRING, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'bid.csv');
CREATE STREAM auction (id BIGINT, item STRING, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'auction.csv');
"""
QUERIES = {
    "aggregate": "SELECT auction, COUNT(note) AS n, AVG(price) AS p FROM bid [RANGE 100000 SECONDS] GROUP BY auction",
    "groups": "SELECT auction, bidder, COUNT(*) AS n FROM bid [UNBOUNDED] GROUP BY auction, bidder",
    "join": "SELECT bidder, item FROM bid [UNBOUNDED], auction [RANGE 1 SECOND] WHERE bid.auction = auction.id AND "
    "bid.note = auction.item",
    "distinct": "SELECT DISTINCT auction, bidder, note FROM bid [RANGE 100000 SECONDS]",
}
STEP = 250_000


def resident() -> int:
    pa.default_memory_pool().release_unused()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) << 10


def bids(step: int) -> pa.Table:
    rng = np.random.default_rng(step)
    numbers = np.arange(step * STEP, (step + 1) * STEP)
    return pa.table(
        {
            "c0": rng.integers(0, 1_000_000, STEP),
            "c1": numbers * 7919,
            "c2": rng.random(STEP),
            "c3": pa.array([f"note number {n}" for n in numbers]),
            "c4": pa.array(numbers * 1000, pa.timestamp("us")),
            "_ts": numbers * 1000,
        }
    )


def main(name: str, mode: str, steps: int) -> None:
    app = bind(f"{STREAMS}CREATE QUERY q AS {QUERIES[name]};")
    kernel = TaskRuntime(extract_tasks(app)[0], app, mode)
    empty = {stream: StreamInput() for stream in app.queries[0].streams}
    kernel.step({**empty, "bid": StreamInput([bids(0).slice(0, 10)])}, lambda *_: None)
    before, mine = resident(), sum(held.bytes for held in kernel.memory())
    for step in range(1, steps + 1):
        given = {"bid": StreamInput([bids(step)])}
        if "auction" in empty:
            given["auction"] = StreamInput(progress_us=(step + 1) * STEP * 1000)
        kernel.step(given, lambda *_: None)
        del given
    found = kernel.memory()
    own, real = sum(held.bytes for held in found) - mine, resident() - before
    print(
        json.dumps(
            {"own": own, "real": real, "tuples": kernel.tuples_held, "holdings": [held.to_json() for held in found]}
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
