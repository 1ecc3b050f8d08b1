"""Watches a step from inside its worker: reports progress, and ends the step before the run exceeds its memory limit.

The kernel calls `before_operator` before each operator. Most calls only read a clock. Every 50 ms a call in a worker
sums up the memory of the run's workers on this machine, and at most four times per second it renews the task's report
(kigen.spark.watch.worker_files). The limit applies to all workers of the run on one machine together. Each worker reads
from /proc what the others use, so a worker that needs little leaves its share to one that needs much. Where the run's
directory is on another machine, a worker cannot see the others. It then gets an equal share: the limit divided by the
number of tasks that run at the same time.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kigen.lifetimes.accounting import Holding, served_by
from kigen.plan.logical import PlanNode
from kigen.plan.tasks import Task
from kigen.spark.spec import RunSpec
from kigen.spark.watch import memory_text
from kigen.spark.watch.memory import MemoryLimitReached, limit_bytes, private_bytes, process_start, return_freed_memory
from kigen.spark.watch.worker_files import COMPUTING, IDLE, READING, WorkerFiles, WorkerReport

WORKER = "KIGEN_WORKER"  # environment variable that Spark's Python workers have
_LOOK_S, _WRITE_S, _STATE_S = 0.05, 0.25, 1.0  # shortest time between two checks, two reports, two counts of state
_ACCOUNTING_SHARE = 20  # counting what operators hold may take at most 1/20 of the time
_SHOWN = 5  # operators named in a report
_SHORT, _RELIEVE_S = 0.75, 2.0  # from this share of the limit on, freed memory is returned to the system, this often
_ROOM = 0.95  # returning freed memory must bring the run below this share of the limit, else the run ends
_REAL_TIME = 1 << 61  # event times beyond this are sentinels
_SPARE_ADDRESSES = 2 << 30  # allocators reserve more than they use


class StepWatch:
    """Watches the steps of one task in one worker process. `relieve` frees memory that the worker can do without."""

    _look_at = 0.0  # for all tasks of the process: memory belongs to the process

    def __init__(self, spec: RunSpec, task: Task, bucket: int, relieve: Callable[[WorkerFiles], None]) -> None:
        self._task, self._worker_files, self._relieve = task, WorkerFiles(spec.scratch), relieve
        self._sees_others, self._silent = self._worker_files.register_worker(), spec.warm_up
        limit = limit_bytes(spec.memory)
        self._limit = limit if self._sees_others else limit // max(1, spec.partitions or 1)
        self.report = WorkerReport(
            task.name, bucket, [q.name for q in task.queries], os.getpid(), process_start(os.getpid())
        )
        self._nodes = list(dict.fromkeys(node for query in task.queries for node in query.root.walk()))
        serves = served_by(self._nodes, task.queries)
        self.report.operators = [(node.label(), list(names)) for node, names in zip(self._nodes, serves, strict=True)]
        self._places = {id(node): place for place, node in enumerate(self._nodes)}  # hashing a plan takes longer
        self._operator_file = self._worker_files.open_operator_file(self.report) if self._sees_others else None
        self._kernel: Any = None
        self._place = -1  # index of the operator at work
        self._state_bytes = 0  # by the kernel's own accounting
        self._state_at = self._relieve_at = 0.0
        self._write_at = self._account_at = self._bound_at = 0.0
        self._to_do = 1  # tuples of this step, at its start

    def begin(self, seq: int, positions: dict[str, Any]) -> None:
        """Starts a batch. `positions` is where the batch ends in each stream."""
        report = self.report
        report.seq, report.positions, report.since_us = seq, positions, time.time_ns() // 1000
        report.read, report.share, report.operator, report.serves = 0, 0.0, "", []
        self._limit_allocations()
        self.phase(READING)

    def phase(self, name: str, long: bool = False) -> None:
        """Enters a phase outside of steps, such as reading or saving. Raises MemoryLimitReached.

        `long`: the phase may take long, so it is reported at once.
        """
        self.report.phase = name
        if long:
            self._write_at = 0.0
        self._write(time.monotonic())
        if name != IDLE and self._due():
            self.check(self.report.doing)

    @contextmanager
    def stepping(self, kernel: Any, read: int) -> Iterator[None]:
        """Watches the kernel while it processes `read` tuples."""
        self._kernel, self.report.phase, self.report.read = kernel, COMPUTING, read
        self._to_do = max(1, read + kernel.waiting)
        self._set_operator(-1)
        if self._due():
            self.check((READING, self.report.queries))
        kernel.watch = self.before_operator
        yield
        kernel.watch = None  # not after an error: the kernel is not used again, and the error names the operator
        self._set_operator(-1)

    def done(self) -> None:
        self.report.share = 1.0
        self.phase(IDLE)

    def before_operator(self, node: PlanNode, now_us: int) -> None:
        """Notes which operator comes next. The kernel calls this. Raises MemoryLimitReached."""
        before = self._place
        self._set_operator(self._place_of(node))
        if not self._due():
            return
        report = self.report
        report.operator, report.serves = report.operators[self._place]
        report.share = max(0.0, 1 - self._kernel.waiting / self._to_do)
        report.reached_us = now_us if abs(now_us) < _REAL_TIME else report.reached_us
        self.check(report.operators[max(before, 0)])  # the operator before allocated what is used now
        self._write(time.monotonic())

    def _due(self) -> bool:
        now = time.monotonic()
        if now < StepWatch._look_at:
            return False
        StepWatch._look_at = now + _LOOK_S
        return True

    def check(self, doing: tuple[str, list[str]]) -> None:
        """Raises MemoryLimitReached if the workers exceed the limit even after freed memory went back to the system."""
        used, now = self._used(), time.monotonic()
        if used < (self._limit if now < self._relieve_at else _SHORT * self._limit):
            return
        self._relieve(self._worker_files)
        return_freed_memory()
        self._relieve_at = now + max(_RELIEVE_S, _ACCOUNTING_SHARE * (time.monotonic() - now))
        if used < self._limit:
            return
        if self._used() >= self._limit * _ROOM:
            raise MemoryLimitReached(memory_text.limit_reached(used, self._limit, self.held(), doing))

    def allocation_refused(self, error: BaseException) -> MemoryLimitReached:
        """Returns the error for an allocation that the system refused."""
        doing = self.report.doing if self._place < 0 else self.report.operators[self._place]
        return MemoryLimitReached(
            memory_text.refused(str(error) or type(error).__name__, self._limit, self.held(), doing)
        )

    def state(self, finished: bool) -> list[dict[str, Any]] | None:
        """Returns what the task's operators hold, for the run's report: about once per second, and at the end."""
        now = time.monotonic()
        if self._kernel is None or (now < self._state_at and not finished):
            return None
        found = [held.to_json() for held in self._kernel.memory()]
        self._state_at = now + max(_STATE_S, _ACCOUNTING_SHARE * (time.monotonic() - now))
        return found

    def held(self) -> list[Holding]:
        mine = [] if self._kernel is None else self._kernel.memory()
        others = (
            [report for report in self._worker_files.reports() if report.task != self._task.name and report.alive]
            if self._sees_others
            else []
        )
        return mine + [held for report in others for held in report.held]

    def _used(self) -> int:
        """Returns the memory in use: by the system's accounting, or by the kernel's own if that is more.

        Pages that are swapped out or not touched yet are missing from the system's count, but will be needed.
        """
        return max(
            sum(self._worker_files.worker_memory().values()) if self._sees_others else private_bytes(),
            self._state_bytes,
        )

    def _set_operator(self, place: int) -> None:
        self._place = place
        if self._operator_file is not None:
            self._worker_files.write_operator(self._operator_file, place)

    def _place_of(self, node: PlanNode) -> int:
        if id(node) not in self._places:  # an equal node of another query; it exists as long as the task
            self._places[id(node)] = self._nodes.index(node)
        return self._places[id(node)]

    def _write(self, now: float) -> None:
        """Renews the report unless it is recent: the progress of a small batch is not worth a file."""
        if not self._sees_others or self._silent or now < self._write_at:
            return
        self._write_at = now + _WRITE_S
        report = self.report
        report.private = private_bytes()
        if self._kernel is not None and now >= self._account_at:
            found = sorted(self._kernel.memory(), key=lambda held: -held.bytes)
            self._state_bytes = sum(held.bytes for held in found)
            report.holdings = [held.to_json() for held in found[:_SHOWN]]
            self._account_at = now + _ACCOUNTING_SHARE * (time.monotonic() - now)
        self._worker_files.write_report(report)

    def _limit_allocations(self) -> None:
        """Makes the system refuse one absurdly large allocation.

        Otherwise the worker would touch it page by page until the system kills a process.
        """
        now = time.monotonic()
        if now < self._bound_at or WORKER not in os.environ:
            return
        self._bound_at = now + 1.0
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = _addresses() + max(0, self._limit - private_bytes()) + _SPARE_ADDRESSES
        resource.setrlimit(
            resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )


def _addresses() -> int:
    """Returns the size of all memory that the process has requested, used or not."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[5]) * resource.getpagesize()
