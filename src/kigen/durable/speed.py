"""Measures how long a disk takes to sync: under `durability = "power"` every acknowledgement waits for it."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from kigen.durable.disk import disk

SLOW_MS = 20.0
_TRIES = 5
_BLOCK = bytes(4096)


def sync_ms(folder: Path) -> float:
    """Returns the median time of a few syncs of a small file in this folder."""
    path = folder / f".sync-{os.getpid()}.tmp"
    fd = disk().open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        took = []
        for place in range(_TRIES):
            disk().write_at(fd, [_BLOCK], place * len(_BLOCK))
            began = time.perf_counter()
            disk().sync(fd)
            took.append(time.perf_counter() - began)
    finally:
        disk().close(fd)
        disk().unlink(path)
    return statistics.median(took) * 1e3


def slow_disk(folder: Path) -> str | None:
    """Returns a warning for the user if the disk syncs slowly, else None."""
    took_ms = sync_ms(folder)
    if took_ms <= SLOW_MS:
        return None
    return (
        f"the disk of {folder} takes {took_ms:.0f} ms to sync, and every batch waits for it. Use a faster disk, or "
        f"durability = process if a power cut may cost you the last seconds"
    )
