"""Simulates a disk whose power can be cut: it tracks what was not synced and loses a random part of it, as real disks
do.

Bytes written since a file's last sync may be present, torn, zero or absent, in any order. New names, renames and
removals since the last sync of their directory may each have happened or not. Everything that was synced is present.
Files that other processes wrote, such as Spark's JVM, count as not synced until they are synced through this disk;
`trusted` names those that are known to be synced.
"""

from __future__ import annotations

import functools
import os
import random
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kigen.durable import Disk


class PowerCut(BaseException):
    """A power cut. Not an Exception, so that no code catches it on the way."""


class _File:
    def __init__(self, durable: bytes = b"") -> None:
        self.durable = durable
        self.pending: list[tuple[int, bytes | None]] = []  # (where, what); None: cut there

    def left(self, rng: random.Random) -> bytes:
        """Returns what a power cut leaves of the bytes."""
        content = bytearray(self.durable)
        luck = rng.choice((0.0, 0.5, 0.9, 1.0))
        for at, data in self.pending:
            if rng.random() > luck:
                continue
            if data is None:
                del content[at:]
                content.extend(bytes(max(0, at - len(content))))
                continue
            kept = data if rng.random() < 0.7 else data[: rng.randrange(len(data) + 1)]
            content.extend(bytes(max(0, at + len(kept) - len(content))))
            content[at : at + len(kept)] = kept if rng.random() < 0.9 else bytes(len(kept))
        return bytes(content)


def _alone(method: Any) -> Any:
    """Runs one change at a time: the sink's pool syncs several files at once."""

    @functools.wraps(method)
    def locked(self: PowerDisk, *arguments: Any, **named: Any) -> Any:
        with self.busy:
            return method(self, *arguments, **named)

    return locked


class PowerDisk(Disk):
    """A disk whose every call raises PowerCut after `cut_after` changes."""

    def __init__(
        self, root: Path, rng: random.Random, cut_after: int = 1 << 60, trusted: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._root, self._rng, self._left, self._trusted = root, rng, cut_after, trusted
        self.busy = threading.RLock()
        self._names: dict[str, _File] = {}  # as they are on the disk
        self._folders: set[str] = {str(root)}
        self._now: dict[str, _File] = {}  # as processes see them
        self._open: dict[int, tuple[str, _File]] = {}
        self._ops: list[tuple[str, tuple[str, ...], Any]] = []  # what it does, the directories it is in, its arguments
        for folder, folders, files in os.walk(root):
            self._folders |= {os.path.join(folder, name) for name in folders}
            for name in files:
                path = os.path.join(folder, name)
                self._names[path] = self._now[path] = _File(Path(path).read_bytes())

    @_alone
    def open(self, path: str | Path, flags: int, mode: int = 0o666) -> int:
        self._tick()
        there = os.path.exists(path)
        fd, name = super().open(path, flags, mode), str(path)
        if not there:
            self._now[name] = _File()
            self._op("link", name, self._now[name])
        elif name not in self._now:
            self._now[name] = self._stranger(name)
            self._op("link", name, self._now[name])
        elif flags & os.O_TRUNC:
            self._now[name].pending.append((0, None))
        self._open[fd] = name, self._now[name]
        return fd

    @_alone
    def write_at(self, fd: int, parts: Sequence[Any], at: int) -> int:
        self._tick()
        done = super().write_at(fd, parts, at)
        self._open[fd][1].pending.append((at, b"".join(bytes(part) for part in parts)[:done]))
        return done

    @_alone
    def truncate(self, fd: int, size: int) -> None:
        self._tick()
        super().truncate(fd, size)
        self._open[fd][1].pending.append((size, None))

    @_alone
    def sync(self, fd: int) -> None:
        self._tick()
        file = self._open[fd][1]
        file.durable, file.pending = Path(f"/proc/self/fd/{fd}").read_bytes(), []

    @_alone
    def close(self, fd: int) -> None:
        self._open.pop(fd, None)
        super().close(fd)

    @_alone
    def rename(self, source: str | Path, target: str | Path) -> None:
        self._tick()
        super().rename(source, target)
        file = self._now.pop(str(source), None) or _File(Path(target).read_bytes())
        self._now[str(target)] = file
        self._ops.append(
            ("rename", (os.path.dirname(source), os.path.dirname(target)), (str(source), str(target), file))
        )

    @_alone
    def unlink(self, path: str | Path) -> None:
        self._tick()
        super().unlink(path)
        self._now.pop(str(path), None)
        self._op("unlink", str(path), None)

    @_alone
    def mkdir(self, path: str | Path) -> None:
        self._tick()
        super().mkdir(path)
        self._op("mkdir", str(path), None)

    @_alone
    def sync_directory(self, path: str | Path) -> None:
        self._tick()
        here = [op for op in self._ops if str(path) in op[1]]
        for op in here:
            self._apply(op, self._names, self._folders)
        self._ops = [op for op in self._ops if op not in here]
        mine = {op[2][0] for op in self._ops if op[0] == "mkdir"}
        for entry in os.scandir(path):  # names that other processes made: durable now, the bytes behind them not
            if entry.is_dir() and entry.path not in mine:
                self._folders.add(entry.path)
            elif entry.is_file() and entry.path not in self._now:
                self._names[entry.path] = self._now[entry.path] = self._stranger(entry.path)

    @_alone
    def image(self) -> tuple[dict[str, bytes], set[str]]:
        """Returns the files and directories that a restart would find."""
        names, folders = dict(self._names), set(self._folders)
        luck = self._rng.choice((0.0, 0.5, 1.0))
        for op in self._ops:
            if self._rng.random() <= luck:
                self._apply(op, names, folders)
        files = {path: file.left(self._rng) for path, file in names.items() if _reachable(path, folders, self._root)}
        for path in self._strangers(names):
            if self._trusted(path):
                files[path] = Path(path).read_bytes()
                folders |= {str(parent) for parent in Path(path).parents if self._root in parent.parents}
            elif self._rng.random() <= luck and _reachable(path, folders, self._root):
                files[path] = self._stranger(path).left(self._rng)
        return files, folders

    def restart(self, at: Path | None = None) -> None:
        """Replaces the present files by the image, or writes the image elsewhere."""
        files, folders = self.image()
        target = at or self._root
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for folder in sorted(folders):
            if _reachable(folder, folders, self._root):
                (target / os.path.relpath(folder, self._root)).mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            place = target / os.path.relpath(path, self._root)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)

    def _tick(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise PowerCut

    def _op(self, what: str, path: str, file: _File | None) -> None:
        self._ops.append((what, (os.path.dirname(path),), (path, file)))

    def _strangers(self, names: dict[str, _File]) -> list[str]:
        """Notices files that were written without this disk."""
        found = [os.path.join(folder, name) for folder, _, files in os.walk(self._root) for name in files]
        return [path for path in found if path not in names and path not in self._now]

    @staticmethod
    def _stranger(path: str) -> _File:
        file = _File()
        with suppress(FileNotFoundError):  # renamed or removed meanwhile
            file.pending.append((0, Path(path).read_bytes()))
        return file

    @staticmethod
    def _apply(op: tuple[str, tuple[str, ...], Any], names: dict[str, _File], folders: set[str]) -> None:
        what, _, arguments = op
        if what == "rename":
            source, target, file = arguments
            names.pop(source, None)
            names[target] = file
        elif what == "link":
            names[arguments[0]] = arguments[1]
        elif what == "unlink":
            names.pop(arguments[0], None)
        else:
            folders.add(arguments[0])


def _reachable(path: str, folders: set[str], root: Path) -> bool:
    above = [str(parent) for parent in Path(path).parents if root == parent or root in parent.parents]
    return all(folder in folders for folder in above)
