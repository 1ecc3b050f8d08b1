"""Writes the paper's streams as folders of parquet files.

STRu is (a,0,v) (a,1,u) (b,2,w) (b,3,v) (a,4,v) ..., one tuple per millisecond. STRb0 and STRb1 are (535,a,0) (536,b,1)
..., one tuple per millisecond each, STRb1 half a millisecond later. STRv and STRl have pseudo-random values
(kigen_lab.bench.lifetimes.newer_queries). Each size is made once, kept in a cache folder, and
always has the same bytes. Cost: a million tuples take about 50 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kigen_lab.bench.parquet_folder import parquet_folder

Numbers = np.ndarray[Any, np.dtype[np.int64]]
START_US = 1_767_225_600_000_000  # 2026-01-01
STEP_US = 1_000
FIRST_CA = 535
_GROUPS = (("a", "v"), ("a", "u"), ("b", "w"), ("b", "v"))
_LETTERS = ("a", "b", "c", "d", "e")
_OF_WINDOW = ("strl",)  # streams whose tuples depend on the window


def stream_table(stream: str, first: int, stop: int, window: int = 0) -> pa.Table:
    """Returns tuples `first` to `stop` of a stream: ca, cb, cc, ts. `window` is the size of the window, in tuples."""
    number = np.arange(first, stop, dtype=np.int64)
    late_us = STEP_US // 2 if stream == "strb1" else 0
    ts = pa.array(START_US + late_us + number * STEP_US, pa.int64()).cast(pa.timestamp("us", "UTC"))
    if stream == "stru":
        columns = [_cycle([a for a, _ in _GROUPS], number), pa.array(number), _cycle([c for _, c in _GROUPS], number)]
    elif stream in ("strv", "strl"):
        values = scattered(number)
        ahead = window * STEP_US // 2 + values % (window * STEP_US + 1)  # W on average
        until = pa.array(START_US + number * STEP_US + ahead, pa.int64()).cast(pa.timestamp("us", "UTC"))
        columns = [
            _cycle(list(_LETTERS), number),
            pa.array(values),
            until if stream == "strl" else pa.array(number // 4),
        ]
    else:
        columns = [pa.array(number + FIRST_CA), _cycle(list(_LETTERS), number), pa.array(number)]
    return pa.table([*columns, ts], names=["ca", "cb", "cc", "ts"])


def scattered(number: Numbers) -> Numbers:
    """Returns pseudo-random values from 0 to 2**31, always the same."""
    mixed = number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return np.asarray(mixed >> np.uint64(33)).astype(np.int64)


def _cycle(values: list[str], number: Numbers) -> pa.Array:
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


def make_data(cache: Path, streams: tuple[str, ...], tuples: int, file_rows: int, window: int = 0) -> Data:
    """Returns the folders of a size, and makes those that do not exist."""
    each = max(1, tuples // len(streams))
    paths = {
        stream: parquet_folder(
            cache / f"{stream}{f'-{window}' if stream in _OF_WINDOW else ''}-{each}-{file_rows}",
            each,
            file_rows,
            partial(stream_table, stream, window=window),
        )
        for stream in streams
    }
    return Data(streams, each * len(streams), file_rows, paths)


def arrow_tuple_bytes(stream: str, window: int) -> float:
    """Returns the bytes that a tuple of a window takes in Arrow, counting its declared columns only."""
    rows = min(window, 100_000)
    return float(stream_table(stream, 0, rows).nbytes) / rows
