"""Lists and reads the files behind a `path` option: one file, a glob, or a directory, in the order of their names,
or of their last change.

Invariant: a file is identified by its path relative to the app file's directory, so that a position stays valid when
the directory moves or later files are added.
"""

from __future__ import annotations

import glob
import os
import time

from kigen.connectors.source_base import InputError


class Files:
    """The files of one path. They are listed once, on first use; `__init__` does no I/O."""

    def __init__(self, path: str, directory: str, suffixes: tuple[str, ...], by_time: bool = False) -> None:
        self._path, self._directory, self._suffixes, self._by_time = path, directory, suffixes, by_time
        self._names: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        if self._names is None:
            self._names = self._list()
        return self._names

    def full(self, name: str) -> str:
        return os.path.normpath(os.path.join(self._directory, name))

    def size(self, name: str) -> int:
        try:
            return os.path.getsize(self.full(name))
        except OSError as error:
            raise InputError(
                f"cannot be read ({error.strerror}); it existed when the run began", self.full(name)
            ) from error

    def age_s(self, name: str) -> float:
        """Returns how long ago the file was last written to."""
        try:
            return time.time() - os.path.getmtime(self.full(name))
        except OSError as error:
            raise InputError(
                f"cannot be read ({error.strerror}); it existed when the run began", self.full(name)
            ) from error

    def after(self, name: str) -> tuple[str, ...]:
        """Returns the files that follow `name`."""
        if self._by_time:
            return self.names[self.names.index(name) + 1 :]
        return tuple(other for other in self.names if other > name)

    def share_before(self, name: str, share: float) -> float:
        """Returns which share of all bytes lies before the point `share` (0..1) into `name`."""
        sizes = {other: self.size(other) for other in self.names}
        total = sum(sizes.values())
        later = {name, *self.after(name)}
        done = sum(size for other, size in sizes.items() if other not in later) + share * sizes.get(name, 0)
        return done / total if total else 1.0

    def read(self, name: str, start: int, length: int) -> bytes:
        try:
            with open(self.full(name), "rb") as file:
                file.seek(start)
                return file.read(length)
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror})", self.full(name)) from error

    def _list(self) -> tuple[str, ...]:
        full = self.full(self._path)
        if os.path.isdir(full):
            inside = sorted(os.listdir(full))
            names = [
                os.path.join(self._path, n)
                for n in inside
                if n.endswith(self._suffixes) and not n.startswith((".", "_"))
            ]
            wanted = f"contains no file ending in {' or '.join(self._suffixes)}"
        elif os.path.exists(full):
            names, wanted = [self._path], ""
        elif glob.has_magic(self._path):
            names = glob.glob(self._path, root_dir=self._directory or ".", recursive=True)
            wanted = "matches no file"
        else:
            names, wanted = [], "no such file"
        names = sorted(n for n in names if os.path.isfile(self.full(n)))
        if self._by_time:
            names.sort(key=lambda n: os.stat(self.full(n)).st_mtime_ns)
        if not names:
            raise InputError(f"{wanted}; paths are relative to the app file's directory", full)
        return tuple(names)
