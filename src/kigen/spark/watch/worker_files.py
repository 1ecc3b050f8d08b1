"""Files in which workers report their progress: one small file per task and one per worker process, in the run's
scratch directory.

The command reads them to show the progress of a long step, to sum up what all workers hold, and to name what a worker
was doing when it died. Invariant: each report is replaced by a rename, never written in place. No process waits for a
file, and losing one costs only information for messages. On a machine that does not have the directory (a remote
executor), nothing is written.
"""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kigen.durable import replace
from kigen.lifetimes.accounting import Holding
from kigen.spark.watch.memory import private_bytes, process_start

READING, LOADING, COMPUTING, SAVING, IDLE = "reading", "loading state", "computing", "saving state", "idle"
_NO_OPERATOR = (-1).to_bytes(4, "little", signed=True)
_HOST = socket.gethostname()


@dataclass
class WorkerReport:
    """What a worker does with one task. The names of the fields are keys of the JSON file."""

    task: str
    bucket: int
    queries: list[str]
    pid: int
    started: int  # start of the process (kigen.spark.watch.memory.process_start)
    seq: int = 0  # number of the batch
    phase: str = IDLE
    since_us: int = 0  # when the work on the batch began
    operator: str = ""  # the one that runs now
    serves: list[str] = field(default_factory=list)  # the queries of that operator
    operators: list[tuple[str, list[str]]] = field(default_factory=list)  # all of the task, with the queries of each
    read: int = 0  # tuples of this batch
    share: float = 0.0  # share of these tuples that is processed
    reached_us: int | None = None  # the kernel's event time
    positions: dict[str, Any] = field(default_factory=dict)  # stream -> where the batch ends
    private: int = 0  # private memory of the process, in bytes
    holdings: list[dict[str, Any]] = field(default_factory=list)  # by the kernel's accounting, the largest first

    @property
    def doing(self) -> tuple[str, list[str]]:
        """Returns the current activity and the queries that it serves."""
        if self.phase == COMPUTING and self.operator:
            return self.operator, self.serves or self.queries
        return self.phase, self.queries

    @property
    def alive(self) -> bool:
        return process_start(self.pid) == self.started

    @property
    def held(self) -> list[Holding]:
        return [Holding.from_json(held) for held in self.holdings]


class WorkerFiles:
    """Writes and reads the report files of a run."""

    def __init__(self, scratch: str) -> None:
        self._folder = Path(scratch) / "workers"
        self._seen: dict[str, tuple[int, WorkerReport]] = {}

    # --- workers ---------------------------------------------------------------------------------------------------

    def register_worker(self) -> bool:
        """Registers this process as a worker of the run. Returns False if the run's directory is on another machine."""
        if not self._folder.parent.is_dir():
            return False
        self._folder.mkdir(exist_ok=True)
        (self._folder / f"{_HOST}@{os.getpid()}@{process_start(os.getpid())}").touch()
        return True

    def open_operator_file(self, report: WorkerReport) -> mmap.mmap | None:
        """Opens the file for `write_operator`. The current operator changes too often for a report.

        Returns None on a file system whose files cannot be mapped: then only reports tell the operator.
        """
        file = os.open(self._folder / f"{report.task}.{report.bucket}.at", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            os.pwrite(file, _NO_OPERATOR, 0)  # raises if the disk is full; a write to the map would end the process
            with suppress(OSError):
                return mmap.mmap(file, len(_NO_OPERATOR))
            return None
        finally:
            os.close(file)

    @staticmethod
    def write_operator(file: mmap.mmap, place: int) -> None:
        """Records the index of the operator that runs now, or -1 for none. Costs less than a microsecond."""
        file[:] = place.to_bytes(4, "little", signed=True)

    def write_report(self, report: WorkerReport) -> None:
        replace(self._folder / f"{report.task}.{report.bucket}.json", json.dumps(asdict(report)).encode())

    # --- everyone on the machine -----------------------------------------------------------------------------------

    def worker_memory(self) -> dict[int, int]:
        """Returns the process ids of the live workers on this machine, each with its private memory."""
        found: dict[int, int] = {}
        for name in self._names():
            host, _, rest = name.rpartition("@")[0].rpartition("@")
            if host == _HOST and process_start(int(rest)) == int(name.rpartition("@")[2]):
                found[int(rest)] = private_bytes(int(rest))
        return found

    def reports(self) -> list[WorkerReport]:
        """Returns the newest report of each task."""
        for name in self._names():
            if not name.endswith(".json") or name.startswith("."):
                continue
            try:
                changed = (self._folder / name).stat().st_mtime_ns
                if self._seen.get(name, (0,))[0] != changed:
                    self._seen[name] = changed, WorkerReport(**json.loads((self._folder / name).read_bytes()))
            except OSError:
                continue
        return [self._with_operator(report) for _, report in self._seen.values()]

    def _with_operator(self, report: WorkerReport) -> WorkerReport:
        """Fills in the operator that runs now. It may have changed since the report was written."""
        try:
            place = int.from_bytes(
                (self._folder / f"{report.task}.{report.bucket}.at").read_bytes(), "little", signed=True
            )
        except OSError:
            return report
        if 0 <= place < len(report.operators) and report.phase in (READING, COMPUTING):
            label, queries = report.operators[place]
            return dataclasses.replace(report, phase=COMPUTING, operator=label, serves=queries)
        return report

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._folder)
        except OSError:
            return []
