"""Writes the paper's streams as folders of parquet files.

STRu is (a,0,v) (a,1,u) (b,2,w) (b,3,v) (a,4,v) ..., one tuple per millisecond. STRb0 and STRb1 are (535,a,0) (536,b,1)
..., one tuple per millisecond each, STRb1 half a millisecond later. Each size is made once, kept in a cache folder, and
always has the same bytes. Cost: a million tuples take about 50 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from kigen_lab.bench.parquet_folder import parquet_folder

START_US = 1_767_225_600_000_000  # 2026-01-01
STEP_US = 1_000
FIRST_CA = 535
_GROUPS = (("a", "v"), ("a", "u"), ("b", "w"), ("b", "v"))
_LETTERS = ("a", "b", "c", "d", "e")


def stream_table(stream: str, first: int, stop: int) -> pa.Table:
    """Returns tuples `first` to `stop` of a stream: ca, cb, cc, ts."""
    number = np.arange(first, stop, dtype=np.int64)
    late_us = STEP_US // 2 if stream == "strb1" else 0
    ts = pa.array(START_US + late_us + number * STEP_US, pa.int64()).cast(pa.timestamp("us", "UTC"))
    if stream == "stru":
        columns = [_cycle([a for a, _ in _GROUPS], number), pa.array(number), _cycle([c for _, c in _GROUPS], number)]
    else:
        columns = [pa.array(number + FIRST_CA), _cycle(list(_LETTERS), number), pa.array(number)]
    return pa.table([*columns, ts], names=["ca", "cb", "cc", "ts"])


def _cycle(values: list[str], number: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    return pa.array(values, pa.string()).take(pa.array(number % len(values)))


@dataclass(frozen=True)
class Data:
    """Folders of streams with `tuples` over all streams together, in files of `file_rows`."""

    streams: tuple[str, ...]
    tuples: int
    file_rows: int
    paths: dict[str, str]  # stream -> folder

    @property
    def per_stream(self) -> int:
        return self.tuples // len(self.streams)


def make_data(cache: Path, streams: tuple[str, ...], tuples: int, file_rows: int) -> Data:
    """Returns the folders of a size, and makes those that do not exist."""
    each = max(1, tuples // len(streams))
    paths = {
        stream: parquet_folder(cache / f"{stream}-{each}-{file_rows}", each, file_rows, partial(stream_table, stream))
        for stream in streams
    }
    return Data(streams, each * len(streams), file_rows, paths)


def arrow_tuple_bytes(stream: str, window: int) -> float:
    """Returns the bytes that a tuple of a window takes in Arrow, counting its declared columns only."""
    rows = min(window, 100_000)
    return float(stream_table(stream, 0, rows).nbytes) / rows
