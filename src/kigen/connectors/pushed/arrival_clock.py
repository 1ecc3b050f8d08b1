"""Says up to which time a pushed stream is complete, over two numbers in a file that two processes map.

The command's process stamps tuples with their arrival and appends them; the reader's process on the same machine claims
watermarks. A watermark must not pass a tuple that is stamped but not visible yet, because its append waits for the
disk. So the writer announces an append before it stamps: `pending` is a lower bound of the stamp to come, and `end` is
the offset after all that is visible.

Invariant: a reader that takes the time, then looks, and has all tuples before `end`, will see no later tuple with a
stamp before the earlier of that time and `pending`. Cost: two stores per append, two loads per look; no system call.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np

NOTHING_PENDING = 2**63 - 1
_BYTES = 16


class ArrivalClock:
    """Both numbers of one stream. One process writes, others read."""

    def __init__(self, file: Path, write: bool = False) -> None:
        if write:
            file.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(file, os.O_RDWR | os.O_CREAT if write else os.O_RDONLY, 0o600)
        try:
            if write:
                os.ftruncate(fd, _BYTES)
            self._map = mmap.mmap(fd, _BYTES, access=mmap.ACCESS_WRITE if write else mmap.ACCESS_READ)
        finally:
            os.close(fd)
        self._numbers = np.frombuffer(self._map, np.int64)  # aligned, so each is stored and loaded in one piece

    def start(self, end: int) -> None:
        """Sets the offset after what a restart found."""
        self._numbers[1] = end
        self._numbers[0] = NOTHING_PENDING

    def announce(self, now_us: int) -> None:
        """Announces an append. Its stamp is taken after this call."""
        self._numbers[0] = now_us

    def finish(self, end: int) -> None:
        """Ends an append, whether it succeeded or not; everything before `end` is visible."""
        self._numbers[1] = end
        self._numbers[0] = NOTHING_PENDING

    def look(self) -> tuple[int, int]:
        """Returns `pending` and `end`, in this order: what was pending before is in `end` now."""
        pending = int(self._numbers[0])
        return pending, int(self._numbers[1])
