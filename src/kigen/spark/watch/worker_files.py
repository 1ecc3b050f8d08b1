"""What workers leave behind while they work: one small file per task, and one per worker process, in the run's scratch
directory.

The command reads them to show how far a long step is, to sum up what all workers hold, and to name what a worker was
doing when it died. Invariant: each file is replaced by a rename, never written in place; nobody waits for one, and
losing them loses nothing but words. On a machine that does not have the directory (an executor elsewhere) nothing is
written.
"""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kigen.durable import replace
from kigen.lifetimes.accounting import Holding
from kigen.spark.watch.memory import private_bytes, started_at

READING, LOADING, COMPUTING, SAVING, IDLE = "reading", "loading state", "computing", "saving state", "idle"
_HOST = socket.gethostname()


@dataclass
class Crumb:
    """What a worker does with one task."""

    task: str
    bucket: int
    queries: list[str]
    pid: int
    started: int  # of the process (kigen.spark.watch.memory)
    seq: int = 0  # of the batch
    phase: str = IDLE
    since_us: int = 0  # when the batch's work began
    operator: str = ""  # at work
    serves: list[str] = field(default_factory=list)  # the queries of that operator
    operators: list[tuple[str, list[str]]] = field(default_factory=list)  # all of the task, and the queries of each
    read: int = 0  # tuples of this batch
    share: float = 0.0  # of them, those that time has passed
    reached_us: int | None = None  # the event time that the kernel has come to
    positions: dict[str, Any] = field(default_factory=dict)  # of each stream, where the batch ends
    private: int = 0  # bytes of the process
    holdings: list[dict[str, Any]] = field(default_factory=list)  # by own accounting, the largest first

    @property
    def doing(self) -> tuple[str, list[str]]:
        """What is done just now, and for which queries."""
        if self.phase == COMPUTING and self.operator:
            return self.operator, self.serves or self.queries
        return self.phase, self.queries

    @property
    def alive(self) -> bool:
        return started_at(self.pid) == self.started

    @property
    def held(self) -> list[Holding]:
        return [Holding.from_json(held) for held in self.holdings]


class Crumbs:
    def __init__(self, scratch: str) -> None:
        self._folder = Path(scratch) / "workers"
        self._seen: dict[str, tuple[int, Crumb]] = {}

    # --- workers ---------------------------------------------------------------------------------------------------

    def sign_in(self) -> bool:
        """Makes this process known as a worker of the run; False where the run's directory is on another machine."""
        if not self._folder.parent.is_dir():
            return False
        self._folder.mkdir(exist_ok=True)
        (self._folder / f"{_HOST}@{os.getpid()}@{started_at(os.getpid())}").touch()
        return True

    def mark(self, crumb: Crumb) -> int:
        """A file for `at`: which operator is at work changes too often for a crumb."""
        return os.open(self._folder / f"{crumb.task}.{crumb.bucket}.at", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)

    @staticmethod
    def at(mark: int, place: int) -> None:
        """The operator at this place among the task's is at work; -1: none. Costs a microsecond."""
        os.pwrite(mark, place.to_bytes(4, "little", signed=True), 0)

    def leave(self, crumb: Crumb) -> None:
        replace(self._folder / f"{crumb.task}.{crumb.bucket}.json", json.dumps(asdict(crumb)).encode())

    # --- everyone on the machine -----------------------------------------------------------------------------------

    def workers(self) -> dict[int, int]:
        """The workers that live on this machine, and the private memory of each."""
        found: dict[int, int] = {}
        for name in self._names():
            host, _, rest = name.rpartition("@")[0].rpartition("@")
            if host == _HOST and started_at(int(rest)) == int(name.rpartition("@")[2]):
                found[int(rest)] = private_bytes(int(rest))
        return found

    def all(self) -> list[Crumb]:
        """The last word on each task."""
        for name in self._names():
            if not name.endswith(".json") or name.startswith("."):
                continue
            try:
                changed = (self._folder / name).stat().st_mtime_ns
                if self._seen.get(name, (0,))[0] != changed:
                    self._seen[name] = changed, Crumb(**json.loads((self._folder / name).read_bytes()))
            except OSError:
                continue
        return [self._now(crumb) for _, crumb in self._seen.values()]

    def _now(self, crumb: Crumb) -> Crumb:
        """With the operator that is at work, which may be another than when the crumb was left."""
        try:
            place = int.from_bytes(
                (self._folder / f"{crumb.task}.{crumb.bucket}.at").read_bytes(), "little", signed=True
            )
        except OSError:
            return crumb
        if 0 <= place < len(crumb.operators) and crumb.phase in (READING, COMPUTING):
            label, queries = crumb.operators[place]
            return dataclasses.replace(crumb, phase=COMPUTING, operator=label, serves=queries)
        return crumb

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._folder)
        except OSError:
            return []
