"""Opens and rotates log files that other processes write: readable by their owner only, limited in length.

Invariant: there are at most two files per log, the current one and the one before it (`.1`), each about as long as the
limit. Writers hold the file open in append mode and need not know about a rotation: the file is copied and then
emptied, and lines written in between are lost. Cost: one look at the size; one copy per 50 MB.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

LONGEST_BYTES = 50 << 20


def open_log(path: Path) -> BinaryIO:
    """Opens a log for appending, mode 0600. Replaces a symbolic link, or a file of another user, in its place."""
    with suppress(FileNotFoundError):
        found = path.lstat()
        if path.is_symlink() or found.st_uid != os.getuid():
            path.unlink()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, 0o600)
    return os.fdopen(fd, "ab")


def rotate_log(path: Path, longest_bytes: int = LONGEST_BYTES) -> bool:
    """Rotates a log that is too long and returns whether it did. A full disk costs the older lines, not the run."""
    try:
        if path.stat().st_size <= longest_bytes:
            return False
        older = path.with_name(f"{path.name}.1")
        with suppress(OSError):
            older.unlink(missing_ok=True)
            with open(path, "rb") as source, open_log(older) as target:
                shutil.copyfileobj(source, target, 1 << 20)
        os.truncate(path, 0)
    except FileNotFoundError:
        return False
    return True
