"""Where the files of one replica lie that may be replaced by copies of the other's: `live.N` it works on, `copy.N` it
only keeps.

Invariant: of all there are, the one with the greatest number counts; it is a live one, or a whole copy (digests are
verified at a start). A copy grows in `part` and becomes one by a rename; it becomes a live one by a rename, too, so a
kill leaves one or the other. Numbers are never used again: what a Spark that is still ending writes goes to a folder
that nobody reads any more.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from kigen.durable import sync_directory
from kigen.links import copy_info, intact

LIVE, COPY, PART, GIVEN = "live", "copy", "part", "given"


class Lives:
    def __init__(self, folder: Path, sync: bool = True) -> None:
        self._folder, self._sync = folder, sync
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self.newest: Path | None = None
        self._number, self._working = 0, False
        for number, path in self._all():
            self._number = max(self._number, number)
            if self.newest is None and (_is(path, LIVE) or (copy_info(path) is not None and intact(path))):
                self.newest = path
        self._drop_others()

    def _all(self) -> list[tuple[int, Path]]:
        """The greatest number first."""
        found = [
            (path.name.partition(".")[2], path) for kind in (LIVE, COPY) for path in self._folder.glob(f"{kind}.*")
        ]
        return sorted(((int(number), path) for number, path in found if number.isdigit()), reverse=True)

    @property
    def copy(self) -> Path | None:
        """The newest copy, unless it has become a live one."""
        return self.newest if self.newest is not None and _is(self.newest, COPY) else None

    def part(self) -> Path:
        """An empty folder for a copy to grow in."""
        part = self._folder / PART
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        return part

    def finish(self, part: Path) -> bool:
        """The copy takes the place of all there was, if it is whole: not if this replica has begun to work
        meanwhile."""
        with self._lock:
            if self._working or copy_info(part) is None:
                return False
            self._number += 1
            self.newest = self._renamed(part, f"{COPY}.{self._number}")
        self._drop_others()
        return True

    def begin(self) -> Path:
        """The folder to work on from now: what there is, or an empty one. A copy that is not finished is given up."""
        with self._lock:
            self._working = True
            shutil.rmtree(self._folder / PART, ignore_errors=True)
            newest = self.newest
            if newest is None:
                self._number += 1
                self.newest = self._folder / f"{LIVE}.{self._number}"
                self.newest.mkdir()
            elif _is(newest, COPY):
                self.newest = self._renamed(newest, newest.name.replace(COPY, LIVE, 1))
            assert self.newest is not None
            return self.newest

    def _renamed(self, folder: Path, name: str) -> Path:
        renamed = folder.rename(self._folder / name)
        if self._sync:
            sync_directory(self._folder)
        return renamed

    def rest(self) -> None:
        """Nobody works on the live one any more: a copy may take its place."""
        with self._lock:
            self._working = False

    def _drop_others(self) -> None:
        for _, path in self._all():
            if path != self.newest:
                shutil.rmtree(path, ignore_errors=True)


def has_lives(folder: Path) -> bool:
    return any(True for kind in (LIVE, COPY) for _ in folder.glob(f"{kind}.*"))


def _is(path: Path, kind: str) -> bool:
    return path.name.startswith(f"{kind}.")
