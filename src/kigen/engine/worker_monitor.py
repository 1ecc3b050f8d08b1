"""Monitors the workers of a run from the command's process: their progress, their memory, and which of them died.

Workers end their own step at the memory limit (kigen.spark.watch.step_watch), but only between operators. The monitor
looks from outside, so that an operator that allocates a lot at once is ended before the system kills some process. It
looks every 50 ms when the limit is near, and less often when the workers could not reach it before the next look. It
does not see workers on other machines: there is no progress within a batch then, and each worker watches only itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kigen.connectors import Source
from kigen.spark.session.start import log_path
from kigen.spark.watch import memory_text, worker_deaths
from kigen.spark.watch.memory import MemoryLimitReached, available_bytes, limit_bytes, machine_bytes
from kigen.spark.watch.worker_files import IDLE, WorkerFiles, WorkerReport

_CHECK_EVERY_S, _SELDOM_S = 0.05, 0.25
_GROWTH = 8e9  # bytes per second: no machine fills memory faster
_WARN_AFTER_S = 0.5
_WARN_AT = (0.8, 0.9, 0.95)  # shares of the limit: the room left halves each time
# Workers end themselves at the limit. The monitor ends those that do not, this far above it or after this long.
_EXCESS, _EXCESS_BYTES, _PATIENCE_S = 0.05, 256_000_000, 2.0
_LEAST_AVAILABLE = 0.015  # share of the machine's memory: below it the system soon kills processes


@dataclass(frozen=True)
class BatchProgress:
    """Progress of the batch that is running."""

    doing: str  # such as: query q15: join on auction = id
    read: int  # tuples of the batch that were read and processed
    share: float  # of the batch, from 0 to 1
    reached_us: int | None  # the event time that the slowest task has reached
    positions: dict[str, Any]  # of each stream, where the batch ends


class WorkerMonitor:
    """Watches the workers of one run. `check` belongs to one thread; the other methods may be called from any."""

    def __init__(self, scratch: str, memory: str, warn: Callable[[str], None]) -> None:
        self._worker_files, self._limit, self._warn = WorkerFiles(scratch), limit_bytes(memory), warn
        self._lock = threading.Lock()  # WorkerFiles keeps what it has read
        self._next_check = self._beyond_since = self._above_since = 0.0
        self._warnings = 0  # how many of _WARN_AT were reported
        self._machine = machine_bytes()
        self._kills_before = worker_deaths.memory_kills()
        self.used = 0  # bytes, of all workers on this machine
        self.limit_error: MemoryLimitReached | None = None  # set when a worker was ended

    def check(self) -> None:
        """Warns from 80 % of the limit on; beyond the limit, ends the worker that uses most and sets `limit_error`."""
        now = time.monotonic()
        if now < self._next_check or self.limit_error is not None:
            return
        workers = self._worker_files.worker_memory()
        self.used = sum(workers.values())
        self._next_check = now + self._pause_s()
        warnings = sum(self.used >= share * self._limit for share in _WARN_AT)
        if warnings <= self._warnings:
            self._above_since = now
        elif now - self._above_since >= _WARN_AFTER_S:  # not a peak that is over at once
            self._warnings = warnings
            self._warn(memory_text.warning(self.used, self._limit, [h for r in self._live_reports() for h in r.held]))
        if self.used < self._limit:
            self._beyond_since = now
        short = self.used > self._machine / 4 and available_bytes() < _LEAST_AVAILABLE * self._machine
        if (
            short
            or self.used > self._limit + max(_EXCESS * self._limit, _EXCESS_BYTES)
            or now - self._beyond_since > _PATIENCE_S
        ):
            self._end_largest(workers, short)

    def _pause_s(self) -> float:
        """Returns how long to wait for the next look: at most until workers could use a share that matters."""
        room = min(_WARN_AT[0] * self._limit, self._machine / 4) - self.used
        return min(_SELDOM_S, max(_CHECK_EVERY_S, room / _GROWTH))

    def _end_largest(self, workers: dict[int, int], short: bool) -> None:
        reports = self._live_reports()
        pid = max(workers, key=lambda p: workers[p])
        at = next((report for report in reports if report.pid == pid and report.phase != IDLE), None)
        held = [held for report in reports for held in report.held]
        text = memory_text.limit_reached(self.used, self._limit, held, None if at is None else at.doing)
        self.limit_error = MemoryLimitReached(f"the machine has next to no memory left; {text}" if short else text)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # it did not end its step by itself

    def running_batch(self, committed: int) -> BatchProgress | None:
        """Returns the progress of the batch after number `committed`; None if no worker has reported on it."""
        reports = self._reports()
        busy = [report for report in reports if report.seq > committed]
        if not busy:
            return None
        at_work = [report for report in busy if report.phase != IDLE] or busy
        slowest = min(at_work, key=lambda report: report.since_us)
        reached = [report.reached_us for report in busy if report.reached_us is not None]
        positions = {stream: at for report in busy for stream, at in report.positions.items()}
        share = sum(report.share for report in busy) / max(1, len(reports))
        read = max(round(report.read * report.share) for report in busy)
        return BatchProgress(_doing(slowest), read, share, min(reached, default=None), positions)

    def describe_death(self, failure: str) -> str | None:
        """Returns a sentence on the worker that died, if Spark's message `failure` is about such a death."""
        if not worker_deaths.is_worker_death(failure):
            return None
        return worker_deaths.describe_death(self._reports(), log_path(), self._limit, self.killed_for_memory)

    @property
    def killed_for_memory(self) -> bool:
        """Whether the system has killed a process for lack of memory since the run began."""
        return worker_deaths.memory_kills() > self._kills_before

    def _reports(self) -> list[WorkerReport]:
        with self._lock:
            return self._worker_files.reports()

    def _live_reports(self) -> list[WorkerReport]:
        return [report for report in self._reports() if report.alive]


def _doing(report: WorkerReport) -> str:
    if report.phase == IDLE:
        return "writing results"
    doing, queries = report.doing
    return f"{memory_text.names_of(queries)}: {doing}"


def fraction_of(sources: Mapping[str, Source], positions: Mapping[str, Any]) -> float | None:
    """Returns how much of the finite inputs lies before these positions; None if some input has no end."""
    found = [source.fraction(positions.get(name) or source.initial()) for name, source in sources.items()]
    known = [fraction for fraction in found if fraction is not None]
    return min(known) if known and len(known) == len(found) else None
