"""Log files that other processes write: for their owner's eyes only, and never longer than twice a limit.

Invariant: a log and the one before it (`.1`) are all there is. Writers hold the file open in append mode and need not
be told when it is rotated: it is copied and emptied (lines written in between are lost). Cost: a look at the size; a
copy per 50 MB.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

LONGEST_BYTES = 50 << 20


def open_log(path: Path) -> BinaryIO:
    """To append to, mode 0600. A link in its place, or a file of somebody else, is not followed."""
    with suppress(FileNotFoundError):
        found = path.lstat()
        if path.is_symlink() or found.st_uid != os.getuid():
            path.unlink()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, 0o600)
    return os.fdopen(fd, "ab")


def rotate_log(path: Path, longest_bytes: int = LONGEST_BYTES) -> bool:
    """Whether it had become too long. A full disk costs the older lines, not the run."""
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
