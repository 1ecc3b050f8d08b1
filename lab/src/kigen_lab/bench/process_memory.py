"""Watches the resident memory of a command and of all processes below it, five times per second.

Spark's Python workers are the Python processes below a JVM. Pages that processes share count for each of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

EVERY_S = 0.2
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    """One running process."""

    parent: int
    name: str
    resident: int  # bytes


@dataclass(frozen=True)
class Usage:
    """Resident memory in bytes: of the whole tree of processes, and of Spark's Python workers in it."""

    tree: int = 0
    workers: int = 0

    def most(self, other: Usage) -> Usage:
        return Usage(max(self.tree, other.tree), max(self.workers, other.workers))


def usage_of(processes: dict[int, Process], root: int) -> Usage:
    """Adds up the memory of a process and of all processes below it."""
    children: dict[int, list[int]] = {}
    for pid, each in processes.items():
        children.setdefault(each.parent, []).append(pid)
    tree = workers = 0
    waiting = [(root, False)]
    while waiting:
        pid, below_jvm = waiting.pop()
        if pid not in processes:
            continue
        process = processes[pid]
        tree += process.resident
        workers += process.resident if below_jvm and process.name.startswith("python") else 0
        waiting += [(child, below_jvm or process.name == "java") for child in children.get(pid, ())]
    return Usage(tree, workers)


def running() -> dict[int, Process]:
    return dict(_running())


def _running() -> Iterator[tuple[int, Process]]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            name, _, rest = (
                (folder / "stat").read_text(encoding="utf-8", errors="replace").partition("(")[2].rpartition(")")
            )
            resident = int((folder / "statm").read_text(encoding="utf-8").split()[1]) * _PAGE
        except (OSError, IndexError):  # the process has just ended
            continue
        yield int(folder.name), Process(int(rest.split()[1]), name, resident)


class MemoryWatch:
    """Watches until the `with` block ends. Then `peak` holds the largest sums."""

    def __init__(self, root: int) -> None:
        self._root, self._over = root, threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory-watch", daemon=True)
        self.peak = Usage()

    def _look(self) -> None:
        while not self._over.wait(EVERY_S):
            self.peak = self.peak.most(usage_of(running(), self._root))

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
