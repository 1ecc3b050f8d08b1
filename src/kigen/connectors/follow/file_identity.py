"""Identifies a file by its inode and its first bytes, so that it is found again after it was renamed or copied away.

Invariant: a file that was truncated and written anew, or replaced, is another file. The checksum covers the first
`HEAD_BYTES`, or as many of them as had been read; so the identity of a short file becomes surer as the file grows. A
file that `copytruncate` of logrotate copied away has another inode, and is found by its first bytes. Cost: one `stat`
and one read of `HEAD_BYTES` per check; other files of the directory are looked at only if the file is not in its place.
"""

from __future__ import annotations

import os
import re
import zlib
from dataclasses import dataclass
from typing import Any

from kigen.connectors.source_base import InputError

HEAD_BYTES = 1024
_LEAST_COPY = 64  # a copy is recognized by at least so many bytes, or by all that were read


@dataclass(frozen=True)
class FileId:
    """A file that was followed: the path under which it was found, relative to the app file's directory, and how to
    recognize it. `born` numbers the files of a stream in the order in which they were found."""

    name: str
    born: int
    inode: int
    head: int  # bytes that the checksum covers
    checksum: int

    def to_json(self) -> list[Any]:
        return [self.name, self.born, self.inode, self.head, self.checksum]

    @staticmethod
    def from_json(value: list[Any]) -> FileId:
        return FileId(*value)

    def is_at(self, path: str, least: int = 0) -> bool:
        """Returns whether the file, with at least so many bytes, is found at this path."""
        found = stat_of(path)
        return found is not None and found.st_ino == self.inode and self._has_head(path, found.st_size, least)

    def is_copy(self, path: str, least: int) -> bool:
        """Returns whether the file at this path begins with the same bytes."""
        found = stat_of(path)
        return (
            found is not None
            and self.head >= min(_LEAST_COPY, least) > 0
            and self._has_head(path, found.st_size, least)
        )

    def _has_head(self, path: str, size: int, least: int) -> bool:
        return size >= max(self.head, least) and head_of(path, self.head)[1] == self.checksum


def head_of(path: str, length: int) -> tuple[int, int]:
    """Returns how many of the first `length` bytes there are, and their checksum."""
    try:
        with open(path, "rb") as file:
            data = file.read(length)
    except OSError:
        return -1, -1
    return len(data), zlib.crc32(data)


def stat_of(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def locate(file: FileId, directory: str, least: int, copies: bool = True) -> str | None:
    """Returns the path at which the file is now, with at least so many bytes; None if it is gone. `copies`: a copy will
    do if it has a name that a rotation gives (`rotation_names`)."""
    there = os.path.normpath(os.path.join(directory, file.name))
    if file.is_at(there, least):
        return there
    folder, base = os.path.split(there)
    others = [os.path.join(folder, name) for name in _files_of(folder) if name != base]
    same = next((path for path in others if file.is_at(path, least)), None)
    if same is not None or not copies:
        return same
    rotated = rotation_names(base)
    alike = [path for path in others if rotated.fullmatch(os.path.basename(path))]
    return next((path for path in alike if file.is_copy(path, least)), None)


def rotation_names(base: str) -> re.Pattern[str]:
    """Matches the names to which rotation renames or copies a file: `app.log.1`, `app.log-20260131`,
    `app-2026-01-31.log`."""
    stem, suffix = os.path.splitext(base)
    stamp = r"[-._]\d[-._:T\d]*Z?"
    return re.compile(f"{re.escape(base)}{stamp}|{re.escape(stem)}{stamp}{re.escape(suffix)}")


def located(file: FileId, directory: str, least: int) -> str:
    """Returns the path at which the file is now; raises InputError if it is gone."""
    found = locate(file, directory, least)
    if found is None:
        there = os.path.normpath(os.path.join(directory, file.name))
        raise InputError(
            f"is gone: {least} bytes of the file that was here are needed, and no file beside it begins with its bytes "
            "(was it deleted, compressed or truncated?). Put it back under any name in the same directory, or start "
            "from the beginning with a new --checkpoint directory",
            there,
        )
    return found


def _files_of(folder: str) -> list[str]:
    try:
        with os.scandir(folder or ".") as entries:
            return sorted(entry.name for entry in entries if entry.is_file())
    except OSError:
        return []
