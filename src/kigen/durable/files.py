"""Writes files so that a power cut leaves them whole or absent: write, sync, rename, sync the directory.

Invariant: with `sync`, the effect of a function is on the disk when it returns, file names included. Without `sync`, a
kill of the process loses nothing, but a power cut may. Either way, no reader ever sees half of a file that `replace` or
`move` put there. Cost: with `sync`, one sync for the bytes and one for the name.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from kigen.durable.disk import disk


class WrittenFile(io.RawIOBase):
    """A file that is written from front to back and can be cut. Unbuffered: wrap it to write small pieces."""

    def __init__(self, path: str | Path, keep: int | None = None, mode: int = 0o666) -> None:
        """Opens a new, empty file if `keep` is None; otherwise keeps the first `keep` bytes of the file."""
        super().__init__()
        self.path = str(path)
        flags = os.O_RDWR | os.O_CREAT | (os.O_TRUNC if keep is None else 0)
        self._fd = disk().open(path, flags, mode)
        self._at = keep or 0
        if keep is not None:
            disk().truncate(self._fd, keep)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            done += disk().write_at(self._fd, [view[done:]], self._at + done)
        self._at += done
        return done

    def tell(self) -> int:
        return self._at

    def cut(self, size: int) -> None:
        """Removes everything after byte `size`, so that a write that failed half-way leaves nothing."""
        disk().truncate(self._fd, size)
        self._at = size

    def sync(self) -> None:
        disk().sync(self._fd)

    def close(self) -> None:
        if not self.closed:
            super().close()
            disk().close(self._fd)


def replace(path: Path, data: bytes, sync: bool = False) -> None:
    """Writes a file so that it appears whole or not at all. A failure leaves the old file and no temporary file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with WrittenFile(temporary) as file:
            file.write(data)
            if sync:
                file.sync()
        disk().rename(temporary, path)
    except OSError:
        _forget(temporary)
        raise
    if sync:
        disk().sync_directory(path.parent)


def move(source: str | Path, target: str | Path, sync: bool = True) -> None:
    """Renames a file that has been synced; copies it if the target is on another file system. The new name is durable
    only after `sync_directory`."""
    try:
        disk().rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        partial = Path(target).with_name(f".{Path(target).name}.tmp")
        with open(source, "rb") as given, WrittenFile(partial) as taken:
            shutil.copyfileobj(given, taken, 1 << 20)
            if sync:
                taken.sync()
        disk().rename(partial, target)
        disk().unlink(source)


def remove(path: str | Path) -> None:
    """Removes a file; durable only after `sync_directory`. A file that is already gone is not an error."""
    with suppress(FileNotFoundError):
        disk().unlink(path)


def make_directories(path: str | Path, sync: bool = False) -> None:
    """Makes a directory and its missing parents; with `sync`, their names are durable."""
    path = Path(path)
    if path.is_dir():
        return
    make_directories(path.parent, sync)
    try:
        disk().mkdir(path)
    except FileExistsError:
        if not path.is_dir():
            raise
    if sync:
        disk().sync_directory(path.parent)


def sync_directory(path: str | Path) -> None:
    disk().sync_directory(path)


def sync_file(path: str | Path) -> None:
    """Syncs a file that another process wrote."""
    fd = disk().open(path, os.O_RDONLY)
    try:
        disk().sync(fd)
    finally:
        disk().close(fd)


def _forget(temporary: Path) -> None:
    with suppress(OSError):
        remove(temporary)
