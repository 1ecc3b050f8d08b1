"""Collects the system calls that change files in one class, so that a test can replace the disk and cut its power.

Invariant: every file that Kigen must find again after a power cut is written, renamed, removed and synced through
`disk()`; nothing else in the product changes those files. Cost: one extra method call per system call.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Disk:
    """The real disk."""

    def open(self, path: str | Path, flags: int, mode: int = 0o666) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def write_at(self, fd: int, parts: Sequence[Any], at: int) -> int:
        """Writes as much of `parts` as it can at byte `at` and returns how many bytes it wrote."""
        return os.pwritev(fd, parts, at)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Returns when the file's bytes and its size are on the disk. Its name may not be: see `sync_directory`."""
        os.fdatasync(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def rename(self, source: str | Path, target: str | Path) -> None:
        os.replace(source, target)

    def unlink(self, path: str | Path) -> None:
        os.unlink(path)

    def mkdir(self, path: str | Path) -> None:
        os.mkdir(path)

    def sync_directory(self, path: str | Path) -> None:
        """Returns when new, renamed and removed names in the directory are on the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


_current = Disk()


def disk() -> Disk:
    return _current


@contextmanager
def standing_in(other: Disk) -> Iterator[None]:
    """Replaces the real disk by another one in this process, for tests."""
    global _current
    before, _current = _current, other
    try:
        yield
    finally:
        _current = before
