"""Records in which order files were read: the list of visits of one stream, durable in the checkpoint.

A visit is a stretch of one file that was read without a break. A file that grows after another was begun is visited
again. Invariant: a visit is on the disk before any of its records has an offset, and the end of a visit never changes.
So offsets mean the same records after a restart, whatever was renamed or added meanwhile. Several readers of a stream
in one process share the list: the first that finds the next file decides, and the others follow. Cost: one line and one
sync per visit, that is, about one per file.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kigen.connectors.follow.file_identity import FileId
from kigen.durable import WrittenFile, make_directories, sync_directory


@dataclass(frozen=True)
class Place:
    """A point in a file: bytes (rows of parquet) before it, and the physical line of text there."""

    at: int
    line: int


@dataclass(frozen=True)
class Left:
    """Where a visit ended, and the identity of its file by then: more of its first bytes are known."""

    end: Place
    file: FileId


@dataclass(frozen=True)
class Visit:
    """`end` is None while the visit is the last one."""

    number: int
    file: FileId
    start: Place
    end: Place | None = None


class Visits:
    """The visits of one stream. `path` None: nothing is kept over a restart."""

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        self._path, self._file = path, None if path is None else _opened(path)
        self._known: list[Visit] = []
        self._reached = 0  # in the last visit, by any reader
        if path is not None:
            for line in _whole_lines(path):
                self._take(_from_json(json.loads(line)))

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, number: int) -> Visit:
        with self._lock:
            return self._known[number]

    def reach(self, number: int, at: int) -> int:
        """Announces that a reader goes to `at` in a visit; returns how far it may go."""
        with self._lock:
            end = self._known[number].end
            if end is not None:
                return min(at, end.at)
            self._reached = max(self._reached, at)
            return at

    def after(self, number: int) -> Visit | None:
        """Returns the visit after this one, if there is one."""
        with self._lock:
            return self._known[number + 1] if number + 1 < len(self._known) else None

    def add(self, number: int, left: Left | None, file: FileId, start: Place) -> Visit | None:
        """Ends the visit `number` (-1: there is none yet) and begins the next one, unless another reader has begun it.
        Returns the next visit; None if a reader has gone further in this one, so that the caller must, too."""
        with self._lock:
            if number + 1 < len(self._known):
                return self._known[number + 1]
            if left is not None and left.end.at < self._reached:
                return None
            self._write(left, file, start)
            self._take((left, file, start))
            return self._known[-1]

    def _take(self, entry: tuple[Left | None, FileId, Place]) -> None:
        left, file, start = entry
        if self._known:
            assert left is not None, "a visit ends where the next one begins"
            self._known[-1] = replace(self._known[-1], end=left.end, file=left.file)
        self._known.append(Visit(len(self._known), file, start))
        self._reached = start.at

    def _write(self, left: Left | None, file: FileId, start: Place) -> None:
        if self._file is None:
            return
        before = None if left is None else {"end": [left.end.at, left.end.line], "file": left.file.to_json()}
        entry = {"before": before, "file": file.to_json(), "start": [start.at, start.line]}
        self._file.write(json.dumps(entry).encode() + b"\n")
        self._file.sync()


def _from_json(value: dict[str, Any]) -> tuple[Left | None, FileId, Place]:
    before = value["before"]
    left = None if before is None else Left(Place(*before["end"]), FileId.from_json(before["file"]))
    return left, FileId.from_json(value["file"]), Place(*value["start"])


def _whole_lines(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return data[: data.rfind(b"\n") + 1].splitlines()


def _opened(path: Path) -> WrittenFile:
    """Opens the list for appending, without a line that was not written whole."""
    make_directories(path.parent, sync=True)
    new = not path.exists()
    keep = 0 if new else path.read_bytes().rfind(b"\n") + 1
    file = WrittenFile(path, keep)
    if new:
        sync_directory(path.parent)
    return file


_SHARED: dict[str, Visits] = {}
_SHARED_LOCK = threading.Lock()


def shared_visits(path: Path | None) -> Visits:
    """Returns the one list of this process for a path."""
    if path is None:
        return Visits(None)
    with _SHARED_LOCK:
        key = str(path)
        if key not in _SHARED:
            _SHARED[key] = Visits(path)
        return _SHARED[key]
