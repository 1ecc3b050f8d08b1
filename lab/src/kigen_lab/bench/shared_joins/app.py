"""Defines the apps and streams of `kigen bench shared-joins`: queries over the join of two streams that differ in their
windows only.

Of n queries, the i-th has i/n of the widest window; a single query has the widest. Each stream has a tuple per
millisecond, the right one half a millisecond later. Keys are random, and so many that a tuple meets about a quarter of
a partner in the widest window.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from kigen.plan import bind
from kigen.plan.logical import App
from kigen_lab.bench.lifetimes.data import START_US, STEP_US
from kigen_lab.bench.parquet_folder import parquet_folder

STREAMS = ("l", "r")
KEYS_PER_TUPLE = 4  # keys per tuple of a window
_PIECE = 10_000  # tuples that are drawn together, so that the stream does not depend on how it is cut


@dataclass(frozen=True)
class Family:
    """A number of queries over one join."""

    queries: int
    widest: int  # tuples per stream, which are milliseconds
    kind: str = "range"
    shared: bool = True

    @property
    def windows(self) -> list[int]:
        return [max(1, self.widest * i // self.queries) for i in range(1, self.queries + 1)]

    def app(self, paths: dict[str, str] | None = None, into: str | None = None) -> App:
        """Returns the app. `into` is the folder for results; None means no sinks, for the kernel."""
        columns = "k BIGINT, v BIGINT, ts TIMESTAMP"
        paths = paths or {name: name for name in STREAMS}
        streams = [
            f"CREATE STREAM {name} ({columns}) TIMESTAMP BY ts FROM parquet (path = '{paths[name]}');"
            for name in STREAMS
        ]
        queries = [self._query(i, window, into) for i, window in enumerate(self.windows)]
        return replace(bind("\n".join(streams + queries)), sharing=self.shared)

    def _query(self, i: int, window: int, into: str | None) -> str:
        w = f"[RANGE {window} MILLISECONDS]" if self.kind == "range" else f"[ROWS {window}]"
        sink = "" if into is None else f" INTO parquet (path = '{into}/q{i}')"
        return f"CREATE QUERY q{i} AS SELECT l.k, l.v AS lv, r.v AS rv FROM l {w}, r {w} WHERE l.k = r.k{sink};"


def stream_table(stream: str, first: int, stop: int, widest: int) -> pa.Table:
    """Returns tuples `first` to `stop`: k, v, ts."""
    number = np.arange(first, stop, dtype=np.int64)
    side = STREAMS.index(stream)
    ts = pa.array(START_US + side * STEP_US // 2 + number * STEP_US, pa.int64())
    pieces = range(first // _PIECE, -(-stop // _PIECE))
    keys = np.concatenate(
        [np.random.default_rng((piece, side)).integers(0, widest * KEYS_PER_TUPLE, _PIECE) for piece in pieces]
    )
    begin = first - pieces[0] * _PIECE
    return pa.table(
        [pa.array(keys[begin : begin + len(number)]), pa.array(number), ts.cast(pa.timestamp("us", "UTC"))],
        names=["k", "v", "ts"],
    )


def make_data(cache: Path, each: int, widest: int, file_rows: int) -> dict[str, str]:
    """Returns the folders of both streams with `each` tuples, and makes those that do not exist."""

    def path(stream: str) -> str:
        folder = cache / f"shared-{stream}-{each}-{widest}-{file_rows}"
        return parquet_folder(folder, each, file_rows, lambda first, stop: stream_table(stream, first, stop, widest))

    return {stream: path(stream) for stream in STREAMS}
