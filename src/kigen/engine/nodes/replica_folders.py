"""On-disk layout of a passive replica: `live.N` is in use, `copy.N` is a copy of the leader's files.

Invariant: the folder with the greatest number counts; it is a live one, or a whole copy (digests are verified at a
start). A copy grows in `part` and becomes `copy.N` by a rename; it becomes `live.N` by a rename too, so a kill leaves
one or the other. Numbers are never used again: a Spark that is still ending writes into a folder that nobody reads any
more.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from kigen.durable import sync_directory
from kigen.links import copy_info, intact

LIVE, COPY, PART, GIVEN = "live", "copy", "part", "given"


class ReplicaFolders:
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
        self._remove_others()

    def _all(self) -> list[tuple[int, Path]]:
        """Lists all folders, the greatest number first."""
        found = [
            (path.name.partition(".")[2], path) for kind in (LIVE, COPY) for path in self._folder.glob(f"{kind}.*")
        ]
        return sorted(((int(number), path) for number, path in found if number.isdigit()), reverse=True)

    @property
    def copy(self) -> Path | None:
        """Returns the newest copy, unless it has become a live folder."""
        return self.newest if self.newest is not None and _is(self.newest, COPY) else None

    def part(self) -> Path:
        """Makes an empty folder for a copy to grow in."""
        part = self._folder / PART
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        return part

    def finish(self, part: Path) -> bool:
        """Puts a whole copy in the place of all other folders; returns whether it did. It does not if this replica has
        begun to work meanwhile."""
        with self._lock:
            if self._working or copy_info(part) is None:
                return False
            self._number += 1
            self.newest = self._renamed(part, f"{COPY}.{self._number}")
        self._remove_others()
        return True

    def begin(self) -> Path:
        """Returns the folder to work on from now: the newest, or an empty one. Gives up a copy that is not finished."""
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
        """Ends the work on the live folder: a copy may take its place."""
        with self._lock:
            self._working = False

    def _remove_others(self) -> None:
        for _, path in self._all():
            if path != self.newest:
                shutil.rmtree(path, ignore_errors=True)


def has_replica_folders(folder: Path) -> bool:
    """Whether a passive replica has worked in this folder."""
    return any(True for kind in (LIVE, COPY) for _ in folder.glob(f"{kind}.*"))


def _is(path: Path, kind: str) -> bool:
    return path.name.startswith(f"{kind}.")
