"""Copies of a process's files for its other replica, this side: made at a moment when the files belong together,
listed, given in pieces.

A copy is a folder of hard links to files that are replaced but never changed in place, and of files written for it
(`make`). Invariant: what is listed under a number is given unchanged as long as that copy is there, and a copy that is
being fetched is not replaced. The other side names files by their place in the list: no path comes from it. Cost: a
link a file, and what is written for the copy.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kigen.links.flight.counters import TrafficCounter
from kigen.queue.errors import BadRequest, UnknownCopy
from kigen.queue.payload import codec_number, pack

PIECES_BYTES = 4 << 20  # of one answer, before compression
_MOST_PIECES = 2000
_FETCHING_S = 10.0  # since it was last asked for a piece
_REMEMBERED = 4
_TEMPORARY = ".tmp"


@dataclass(frozen=True)
class OfferedCopy:
    number: int
    folder: Path
    files: list[tuple[str, int, str]]  # path below the folder, bytes, what changes when the file does
    told: dict[str, Any]  # what its maker says of it


class OfferedCopies:
    def __init__(self, folder: Path, period_s: float) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self._folder, self._period_s = folder, period_s
        self.life = _new_life()
        self._lock = threading.Lock()
        self._asked_at = self._made_at = self._fetched_at = -float("inf")
        self._newest: OfferedCopy | None = None
        self._count = 0
        self._old: list[Path] = []
        self._told: dict[
            int, dict[str, Any]
        ] = {}  # of the last few: a newer one may be there when it is whole on the other side
        self.given = TrafficCounter()
        self._digests: dict[str, str] = {}  # by mark, of the files of the last copy that was listed

    def forget(self) -> None:
        """Whoever made them begins to work again: what there is was made in another life, and is not to be had any
        more."""
        with self._lock:
            self._old += [] if self._newest is None else [self._newest.folder]
            self._newest, self._told, self.life = None, {}, _new_life()
            self._made_at = self._fetched_at = -float("inf")

    def asked(self) -> int | None:
        """The other replica is there, and wants copies. The number of the newest. Old ones are removed here, not while
        a batch waits."""
        self._asked_at = time.monotonic()
        with self._lock:
            old, self._old = self._old, []
        for folder in old:
            shutil.rmtree(folder, ignore_errors=True)
        return None if self._newest is None else self._newest.number

    @property
    def due(self) -> bool:
        now = time.monotonic()
        wanted = now - self._asked_at < 10 + 3 * self._period_s
        return wanted and now - self._made_at >= self._period_s and now - self._fetched_at >= _FETCHING_S

    def make(self, fill: Callable[[Path], dict[str, Any]]) -> None:
        """`fill` puts the files into a new folder; whoever calls makes sure that they belong together as long as it
        lasts."""
        number = self._count + 1
        folder = self._folder / str(number)
        try:
            folder.mkdir(parents=True)
            told = fill(folder)
            files = [self._file(folder, path) for path in sorted(folder.rglob("*")) if path.is_file()]
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        with self._lock:
            before, self._newest = self._newest, OfferedCopy(number, folder, files, told)
            self._count, self._made_at = number, time.monotonic()
            self._told = {n: t for n, t in self._told.items() if n > number - _REMEMBERED} | {number: told}
            self._old += [] if before is None else [before.folder]

    def _file(self, folder: Path, path: Path) -> tuple[str, int, str]:
        found = path.stat()
        return str(path.relative_to(folder)), found.st_size, f"{self.life}-{found.st_ino}-{found.st_mtime_ns}"

    def listed(self, number: int) -> dict[str, Any]:
        """Its files, and the digest of each: made when somebody asks, not while a batch waits, once for a file that
        does not change."""
        made = self._get(number)
        self._fetched_at = time.monotonic()
        known, self._digests = self._digests, {}
        try:
            for path, _, mark in made.files:
                self._digests[mark] = known.get(mark) or digest_of(made.folder / path)
        except OSError as error:
            raise UnknownCopy(f"copy {number} is gone: ask for the newest") from error
        return {
            "copy": number,
            "files": made.files,
            "told": made.told,
            "digests": [self._digests[mark] for _, _, mark in made.files],
        }

    def pieces(self, number: int, pieces: list[Any], compress: str) -> bytes:
        """Each piece: a file's place in the list, from which byte, to which. One after the other, compressed as one."""
        made, codec = self._get(number), codec_number(compress)
        self._fetched_at = time.monotonic()
        if len(pieces) > _MOST_PIECES or not all(_is_piece(piece, made.files) for piece in pieces):
            raise BadRequest("pieces of a copy: [place of the file, first byte, end] within the file are required")
        if sum(end - first for _, first, end in pieces) > PIECES_BYTES:
            raise BadRequest(f"pieces of a copy: at most {PIECES_BYTES:,} bytes at once")
        try:
            plain = b"".join(_read(made.folder / made.files[place][0], first, end) for place, first, end in pieces)
        except OSError as error:  # a newer one has taken its place meanwhile
            raise UnknownCopy(f"copy {number} is gone: ask for the newest") from error
        data = pack(plain, codec)
        self.given.add(len(pieces), len(data), len(plain))
        return data

    def done(self, number: int) -> dict[str, Any]:
        """The other side has all of it. What its maker said of it."""
        self._fetched_at = -float("inf")
        with self._lock:
            if number not in self._told:
                raise UnknownCopy(f"copy {number} is not known here")
            return self._told[number]

    def _get(self, number: int) -> OfferedCopy:
        with self._lock:
            if self._newest is None or self._newest.number != number:
                raise UnknownCopy(f"copy {number} is not here (any more): ask for the newest")
            return self._newest

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def digest_of(path: Path) -> str:
    """Of all its bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _new_life() -> str:
    """Marks of another life, or of another process, say nothing."""
    return uuid.uuid4().hex[:8]


def link_tree(source: Path, target: Path, leave_out: frozenset[str]) -> None:
    """Hard links to all files below, but for temporary ones and these names. A file that goes meanwhile was not
    needed."""
    for folder, folders, files in os.walk(source):
        folders[:] = [name for name in folders if name not in leave_out]
        here = target / Path(folder).relative_to(source)
        here.mkdir(parents=True, exist_ok=True)
        for name in files:
            if name in leave_out or name.endswith(_TEMPORARY):
                continue
            try:
                _link(Path(folder, name), here / name)
            except FileNotFoundError:
                continue


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        shutil.copy2(path, target)


def _is_piece(piece: Any, files: list[tuple[str, int, str]]) -> bool:
    if (
        not isinstance(piece, list)
        or len(piece) != 3
        or not all(isinstance(n, int) and not isinstance(n, bool) for n in piece)
    ):
        return False
    place, first, end = piece
    return bool(0 <= place < len(files) and 0 <= first <= end <= files[place][1])


def _read(path: Path, first: int, end: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(first)
        return file.read(end - first)
