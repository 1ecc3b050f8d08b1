"""A worker's eye on its own step: says how far it is, and ends it before the run uses more memory than it may.

The kernel calls `between` before each operator. Mostly that is a look at a clock; every 50 ms the memory of the run's
workers on this machine is summed, at most four times a second the task's crumb (kigen.spark.watch.worker_files) is
renewed. The limit is of all workers of the run on a machine: each reads what the others use from /proc, so that one
that needs little leaves its share to one that needs much. Where the run's directory is on another machine, a worker
knows of no others and has an equal share: the limit divided by the tasks run at once.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kigen.lifetimes.accounting import Holding, served_by
from kigen.plan.labels import describe_node
from kigen.plan.logical import PlanNode
from kigen.plan.tasks import Task
from kigen.spark.spec import RunSpec
from kigen.spark.watch import memory_text
from kigen.spark.watch.memory import MemoryLimitReached, give_back, limit_bytes, private_bytes, started_at
from kigen.spark.watch.worker_files import COMPUTING, IDLE, READING, Crumb, Crumbs

WORKER = "KIGEN_WORKER"  # in the environment of Spark's Python workers
_LOOK_S, _TELL_S, _REPORT_S = 0.05, 0.25, 1.0
_ACCOUNTING_SHARE = 20  # counting what operators hold may take one part in this many of the time
_SHOWN = 5  # operators named in a crumb
_SHORT, _RELIEVE_S = 0.75, 2.0  # of the limit: from there on allocators give back what was freed, now and then
_ROOM = 0.95  # freed memory that is given back must bring the run below this share of the limit, else it is over
_TIME_SENSIBLE = 1 << 61
_SPARE_ADDRESSES = 2 << 30  # allocators reserve more than they use


class Watching:
    """One per task and worker process. `relieve` drops what the worker can do without."""

    def __init__(self, spec: RunSpec, task: Task, bucket: int, relieve: Callable[[Crumbs], None]) -> None:
        self._task, self._crumbs, self._relieve = task, Crumbs(spec.scratch), relieve
        self._together, self._silent = self._crumbs.sign_in(), spec.warm_up
        limit = limit_bytes(spec.memory)
        self._limit = limit if self._together else limit // max(1, spec.partitions or 1)
        self.crumb = Crumb(task.name, bucket, [q.name for q in task.queries], os.getpid(), started_at(os.getpid()))
        self._nodes = list(dict.fromkeys(node for query in task.queries for node in query.root.walk()))
        serves = served_by(self._nodes, task.queries)
        self.crumb.operators = [
            (describe_node(node), list(names)) for node, names in zip(self._nodes, serves, strict=True)
        ]
        self._places = {id(node): place for place, node in enumerate(self._nodes)}  # hashing a plan takes longer
        self._mark = self._crumbs.mark(self.crumb) if self._together else -1
        self._kernel: Any = None
        self._place = -1  # of the operator at work
        self._own = 0  # bytes, by the kernel's accounting
        self._report_at = self._relieve_at = 0.0
        self._look_at = self._tell_at = self._account_at = self._bound_at = 0.0
        self._taken = 1

    def begin(self, seq: int, positions: dict[str, Any]) -> None:
        """A batch of the task: what it will read."""
        crumb = self.crumb
        crumb.seq, crumb.positions, crumb.since_us = seq, positions, time.time_ns() // 1000
        crumb.read, crumb.share, crumb.operator, crumb.serves = 0, 0.0, "", []
        self._bound()
        self.phase(READING)

    def phase(self, name: str, long: bool = False) -> None:
        """Between steps: reading, saving. `long`: it may take long, and is told at once. Raises MemoryLimitReached."""
        self.crumb.phase = name
        if long:
            self._tell_at = 0.0
        self._tell(time.monotonic())
        if name != IDLE and self._due():
            self.check(self.crumb.doing)

    @contextmanager
    def over(self, kernel: Any, read: int) -> Iterator[None]:
        """While the kernel steps over so many tuples."""
        self._kernel, self.crumb.phase, self.crumb.read = kernel, COMPUTING, read
        self._taken = max(1, read + kernel.waiting)
        self._at(-1)
        if self._due():
            self.check((READING, self.crumb.queries))
        kernel.watch = self.between
        yield
        kernel.watch = None  # after an error the kernel is not used again, and where it was is still to be told
        self._at(-1)

    def close(self) -> None:
        if self._mark >= 0:
            os.close(self._mark)

    def done(self) -> None:
        self.crumb.share = 1.0
        self.phase(IDLE)

    def between(self, node: PlanNode, now_us: int) -> None:
        """Raises MemoryLimitReached."""
        before = self._place
        self._at(self._place_of(node))
        if not self._due():
            return
        crumb = self.crumb
        crumb.operator, crumb.serves = crumb.operators[self._place]
        crumb.share = max(0.0, 1 - self._kernel.waiting / self._taken)
        crumb.reached_us = now_us if abs(now_us) < _TIME_SENSIBLE else crumb.reached_us
        self.check(crumb.operators[max(before, 0)])  # what is used now, the one before has used
        self._tell(time.monotonic())

    def _due(self) -> bool:
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + _LOOK_S
        return True

    def check(self, doing: tuple[str, list[str]]) -> None:
        """Raises MemoryLimitReached if the workers use more than they may, though what was freed is given back to the
        system."""
        used, now = self._used(), time.monotonic()
        if used < (self._limit if now < self._relieve_at else _SHORT * self._limit):
            return
        self._relieve(self._crumbs)
        give_back()
        self._relieve_at = now + max(_RELIEVE_S, _ACCOUNTING_SHARE * (time.monotonic() - now))
        if used < self._limit:
            return
        if self._used() >= self._limit * _ROOM:
            raise MemoryLimitReached(memory_text.limit_reached(used, self._limit, self.held(), doing))

    def too_large(self, error: BaseException) -> MemoryLimitReached:
        """For an allocation that was refused: more at once than there is."""
        doing = self.crumb.doing if self._place < 0 else self.crumb.operators[self._place]
        return MemoryLimitReached(
            memory_text.refused(str(error) or type(error).__name__, self._limit, self.held(), doing)
        )

    def state(self, finished: bool) -> list[dict[str, Any]] | None:
        """What the task's operators hold, for the report: at the end, and else about once a second."""
        now = time.monotonic()
        if self._kernel is None or (now < self._report_at and not finished):
            return None
        found = [held.to_json() for held in self._kernel.memory()]
        self._report_at = now + max(_REPORT_S, _ACCOUNTING_SHARE * (time.monotonic() - now))
        return found

    def held(self) -> list[Holding]:
        mine = [] if self._kernel is None else self._kernel.memory()
        others = (
            [crumb for crumb in self._crumbs.all() if crumb.task != self._task.name and crumb.alive]
            if self._together
            else []
        )
        return mine + [held for crumb in others for held in crumb.held]

    def _used(self) -> int:
        """By the system's accounting, or by our own if that is more: what is swapped out, or not touched yet, will be
        wanted."""
        return max(sum(self._crumbs.workers().values()) if self._together else private_bytes(), self._own)

    def _at(self, place: int) -> None:
        self._place = place
        if self._together:
            self._crumbs.at(self._mark, place)

    def _place_of(self, node: PlanNode) -> int:
        if id(node) not in self._places:  # an equal node of another query; it lives as long as the task
            self._places[id(node)] = self._nodes.index(node)
        return self._places[id(node)]

    def _tell(self, now: float) -> None:
        """Renews the crumb, unless it is young: what a small batch did in between is not worth a file."""
        if not self._together or self._silent or now < self._tell_at:
            return
        self._tell_at = now + _TELL_S
        crumb = self.crumb
        crumb.private = private_bytes()
        if self._kernel is not None and now >= self._account_at:
            found = sorted(self._kernel.memory(), key=lambda held: -held.bytes)
            self._own = sum(held.bytes for held in found)
            crumb.holdings = [held.to_json() for held in found[:_SHOWN]]
            self._account_at = now + _ACCOUNTING_SHARE * (time.monotonic() - now)
        self._crumbs.leave(crumb)

    def _bound(self) -> None:
        """Lets the system refuse one absurd allocation, which would be touched page by page until the system kills
        somebody."""
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
    """What the process has asked for, used or not."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[5]) * resource.getpagesize()
