"""Offers copies of a process's files to its other replica: makes them at a consistent moment, lists them, sends pieces.

A copy is a folder of hard links to files that are replaced but never changed in place, plus files written for the copy
(`make`). Invariant: the content listed under a number does not change while that copy exists, and a copy that is being
fetched is not replaced. The other side names files by their index in the list, so no path comes from it. Cost: one hard
link per file, plus the files written for the copy.
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

PIECES_BYTES = 4 << 20  # per answer, before compression
_MOST_PIECES = 2000
_FETCHING_S = 10.0  # a copy counts as being fetched for this long after the last request for it
_REMEMBERED = 4  # copies whose info is kept
_TEMPORARY = ".tmp"


@dataclass(frozen=True)
class OfferedCopy:
    """One copy that the other replica can fetch."""

    number: int
    folder: Path
    files: list[tuple[str, int, str]]  # path below the folder, bytes, stamp (differs if the content does)
    info: dict[str, Any]  # what the maker of the copy says about it


class OfferedCopies:
    """All copies of one process. Only the newest can be fetched."""

    def __init__(self, folder: Path, period_s: float) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self._folder, self._period_s = folder, period_s
        self.life = _new_life()
        self._lock = threading.Lock()
        self._asked_at = self._made_at = self._fetched_at = -float("inf")
        self._newest: OfferedCopy | None = None
        self._count = 0
        self._old: list[Path] = []
        # Info of the last few copies: a newer copy may exist when the other side has one completely.
        self._info: dict[int, dict[str, Any]] = {}
        self.given = TrafficCounter()
        self._digests: dict[str, str] = {}  # by stamp, for the files of the last copy that was listed

    def forget(self) -> None:
        """Withdraws all copies, since the process starts to work again: they belong to an earlier life."""
        with self._lock:
            self._old += [] if self._newest is None else [self._newest.folder]
            self._newest, self._info, self.life = None, {}, _new_life()
            self._made_at = self._fetched_at = -float("inf")

    def asked(self) -> int | None:
        """Notes that the other replica wants copies. Returns the number of the newest one.

        Removes old copies here, because no batch waits for this call.
        """
        self._asked_at = time.monotonic()
        with self._lock:
            old, self._old = self._old, []
        for folder in old:
            shutil.rmtree(folder, ignore_errors=True)
        return None if self._newest is None else self._newest.number

    @property
    def due(self) -> bool:
        """Whether it is time to make a new copy: one is wanted, the period is over, and none is being fetched."""
        now = time.monotonic()
        wanted = now - self._asked_at < 10 + 3 * self._period_s
        return wanted and now - self._made_at >= self._period_s and now - self._fetched_at >= _FETCHING_S

    def make(self, fill: Callable[[Path], dict[str, Any]]) -> None:
        """Makes a copy. `fill` puts the files into a new folder; the caller keeps them consistent until it returns."""
        number = self._count + 1
        folder = self._folder / str(number)
        try:
            folder.mkdir(parents=True)
            info = fill(folder)
            files = [self._file(folder, path) for path in sorted(folder.rglob("*")) if path.is_file()]
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        with self._lock:
            before, self._newest = self._newest, OfferedCopy(number, folder, files, info)
            self._count, self._made_at = number, time.monotonic()
            self._info = {n: t for n, t in self._info.items() if n > number - _REMEMBERED} | {number: info}
            self._old += [] if before is None else [before.folder]

    def _file(self, folder: Path, path: Path) -> tuple[str, int, str]:
        found = path.stat()
        return str(path.relative_to(folder)), found.st_size, f"{self.life}-{found.st_ino}-{found.st_mtime_ns}"

    def listed(self, number: int) -> dict[str, Any]:
        """Returns the files of a copy with a digest each.

        Digests are computed here, because no batch waits for this call, and once per file that does not change.
        """
        made = self._get(number)
        self._fetched_at = time.monotonic()
        known, self._digests = self._digests, {}
        try:
            for path, _, stamp in made.files:
                self._digests[stamp] = known.get(stamp) or digest_of(made.folder / path)
        except OSError as error:
            raise UnknownCopy(f"copy {number} was removed: ask for the newest") from error
        return {
            "copy": number,
            "files": made.files,
            "told": made.info,
            "digests": [self._digests[stamp] for _, _, stamp in made.files],
        }

    def pieces(self, number: int, pieces: list[Any], compress: str) -> bytes:
        """Returns the requested pieces, joined and compressed as one. A piece is the index of a file, the first byte,
        the end.
        """
        made, codec = self._get(number), codec_number(compress)
        self._fetched_at = time.monotonic()
        if len(pieces) > _MOST_PIECES or not all(_is_piece(piece, made.files) for piece in pieces):
            raise BadRequest("each piece of a copy must be [index of the file, first byte, end] within the file")
        if sum(end - first for _, first, end in pieces) > PIECES_BYTES:
            raise BadRequest(f"the pieces of a copy exceed {PIECES_BYTES:,} bytes: ask for fewer at once")
        try:
            plain = b"".join(_read(made.folder / made.files[place][0], first, end) for place, first, end in pieces)
        except OSError as error:  # a newer copy has replaced it in the meantime
            raise UnknownCopy(f"copy {number} was removed: ask for the newest") from error
        data = pack(plain, codec)
        self.given.add(len(pieces), len(data), len(plain))
        return data

    def done(self, number: int) -> dict[str, Any]:
        """Notes that the other side has the copy completely. Returns the info of the copy."""
        self._fetched_at = -float("inf")
        with self._lock:
            if number not in self._info:
                raise UnknownCopy(f"copy {number} is unknown here")
            return self._info[number]

    def _get(self, number: int) -> OfferedCopy:
        with self._lock:
            if self._newest is None or self._newest.number != number:
                raise UnknownCopy(f"copy {number} does not exist (any more): ask for the newest")
            return self._newest

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def digest_of(path: Path) -> str:
    """Returns a digest of all bytes of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _new_life() -> str:
    """Returns a name for this life of the process. Stamps of different lives cannot be compared."""
    return uuid.uuid4().hex[:8]


def link_tree(source: Path, target: Path, leave_out: frozenset[str]) -> None:
    """Makes hard links to all files below `source`, except temporary files and the given names.

    A file that disappears in the meantime was not needed.
    """
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
    except OSError:  # a file system without hard links
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
