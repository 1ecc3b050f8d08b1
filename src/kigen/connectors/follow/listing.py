"""Lists the files of a followed path: one file that may be rotated, or a directory or glob in which files appear.

Invariant: does not decide what was read; that is `follower`. Cost: one `stat` for a single file; for a directory or
glob, one `stat` per file and listing.
"""

from __future__ import annotations

import glob
import os

from kigen.connectors.follow.file_identity import rotation_names, stat_of


class Listing:
    """The files of one path. `by_time`: the files of a directory go by the time of their last change, else by name."""

    def __init__(self, path: str, directory: str, suffixes: tuple[str, ...], by_time: bool) -> None:
        self._path, self.directory, self._suffixes, self._by_time = path, directory, suffixes, by_time
        self.path = self.full(path)

    def full(self, name: str) -> str:
        return os.path.normpath(os.path.join(self.directory, name))

    @property
    def single(self) -> str | None:
        """Returns the name of the only file; None if the path is a directory or a glob."""
        full = self.full(self._path)
        if os.path.isdir(full) or self._path.endswith("/"):
            return None
        return None if glob.has_magic(self._path) and not os.path.exists(full) else self._path

    def names(self) -> list[tuple[str, os.stat_result]]:
        """Returns the files that are there, in the order in which they are read."""
        full = self.full(self._path)
        if self.single is not None:
            names = [self._path]
        elif os.path.isdir(full):
            inside = [n for n in os.listdir(full) if n.endswith(self._suffixes) and not n.startswith((".", "_"))]
            names = [os.path.join(self._path, name) for name in inside]
        else:
            names = glob.glob(self._path, root_dir=self.directory or ".", recursive=True)
        found = [(name, stat) for name in names if (stat := stat_of(self.full(name))) is not None]
        files = [(name, stat) for name, stat in found if os.path.isfile(self.full(name))]
        return sorted(files, key=lambda f: (f[1].st_mtime_ns if self._by_time else 0, f[0]))

    def rotated(self, since_ns: int) -> list[tuple[str, os.stat_result]]:
        """Returns the files to which the only file may have been renamed, changed at `since_ns` or later, oldest
        first."""
        folder, base = os.path.split(self._path)
        pattern = rotation_names(base)
        try:
            names = [os.path.join(folder, n) for n in os.listdir(self.full(folder)) if pattern.fullmatch(n)]
        except OSError:
            return []
        found = [
            (n, stat) for n in names if (stat := stat_of(self.full(n))) is not None and stat.st_mtime_ns >= since_ns
        ]
        return sorted(found, key=lambda f: (f[1].st_mtime_ns, f[0]))
