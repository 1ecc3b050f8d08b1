"""Measures what a tuple of a full window takes in the kernel: in saved state and in a fresh process, relative to Arrow.

It runs in its own process, so that no other memory is counted: `python -m kigen_lab.bench.lifetimes.memory QUERY KIND
WINDOW LIFETIME`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from kigen_lab.bench.lifetimes.data import arrow_tuple_bytes
from kigen_lab.bench.lifetimes.kernel import encoded_blocks, make_kernel, step
from kigen_lab.bench.lifetimes.newer_queries import BY_NAME
from kigen_lab.bench.lifetimes.queries import PaperQuery

_BLOCK_ROWS = 50_000  # small, so that the memory of a step is not taken for state
SMALLEST_WINDOW = 100_000  # below it, fixed costs hide the cost per tuple


def window_memory(query: PaperQuery, kind: str, window: int, lifetime: str) -> dict[str, Any]:
    """Returns the bytes per tuple of the window, measured in a process of its own."""
    command = [sys.executable, "-m", "kigen_lab.bench.lifetimes.memory", query.name, kind, str(window), lifetime]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def measure(query: PaperQuery, kind: str, window: int, lifetime: str) -> dict[str, Any]:
    _fill(query, kind, min(window, 1_000), lifetime)  # libraries load and pools grow on first use
    before = _resident_bytes()
    kernel = _fill(query, kind, window, lifetime)
    growth = _resident_bytes() - before
    saved = len(kernel.snapshot())
    arrow = arrow_tuple_bytes(query.streams[0], window)
    return {
        "query": query.name,
        "kind": kind,
        "window": window,
        "lifetime": lifetime,
        "arrow_bytes": round(arrow, 1),
        "state_bytes": round(saved / window, 1),
        "resident_bytes": round(growth / window, 1),
        "state_over_arrow": round(saved / window / arrow, 2),
        "resident_over_arrow": round(growth / window / arrow, 2),
    }


def _fill(query: PaperQuery, kind: str, window: int, lifetime: str) -> Any:
    """Returns a kernel whose window is full and has slid by a tenth."""
    kernel = make_kernel(query, kind, window, lifetime)
    for piece in encoded_blocks(query, window, window + max(2, window // 10), min(_BLOCK_ROWS, window)):
        if not piece.last:
            step(kernel, query, piece)
    return kernel


def _resident_bytes() -> int:
    gc.collect()
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # another C library: freed memory may be counted
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    name, kind_, window_, lifetime_ = sys.argv[1:]
    print(json.dumps(measure(BY_NAME[name], kind_, int(window_), lifetime_)))
