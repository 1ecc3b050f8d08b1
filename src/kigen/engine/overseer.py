"""The command's eye on a run's workers: how far they are, what they use, and which of them died.

Workers end their own step at the limit (kigen.spark.watch.step_watch), but only between operators. This process looks
from outside every 50 ms, so that one operator that takes all memory at once is ended before the system kills somebody.
Workers on other machines are not seen: then there is no progress within a batch, and each worker watches itself alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kigen.connectors import Source
from kigen.spark.session.start import log_path
from kigen.spark.watch import memory_text, worker_deaths
from kigen.spark.watch.memory import MemoryLimitReached, available_bytes, limit_bytes, machine_bytes
from kigen.spark.watch.worker_files import IDLE, Crumb, Crumbs

_LOOK_S = 0.05
_TELL_AFTER_S = 0.5
_STEPS = (0.8, 0.9, 0.95)  # of the limit: each time the room left has halved
# workers end themselves at the limit; those that do not are ended so far above it, or after so long
_BEYOND, _BEYOND_BYTES, _PATIENCE_S = 0.05, 256_000_000, 2.0
_LEAST_AVAILABLE = 0.015  # of the machine: below it the system soon kills


@dataclass(frozen=True)
class Within:
    """How far the batch is that runs now."""

    doing: str  # such as: query q15: join on auction = id
    read: int  # tuples of it that are read and passed
    share: float  # of the batch
    reached_us: int | None  # the event time that the slowest task has come to
    positions: dict[str, Any]  # of each stream, where the batch ends


class Overseer:
    def __init__(self, scratch: str, memory: str, tell: Callable[[str], None]) -> None:
        self._crumbs, self._limit, self._tell = Crumbs(scratch), limit_bytes(memory), tell
        self._look_at = self._beyond_since = self._above_since = 0.0
        self._told = 0  # steps
        self._machine = machine_bytes()
        self._kills = worker_deaths.kills_for_memory()
        self.used = 0  # bytes, of all workers here
        self.verdict: MemoryLimitReached | None = None

    def look(self) -> None:
        """Tells who holds what from 80 % of the limit on; beyond it, ends the worker that uses most and leaves a
        verdict."""
        now = time.monotonic()
        if now < self._look_at or self.verdict is not None:
            return
        self._look_at = now + _LOOK_S
        workers = self._crumbs.workers()
        self.used = sum(workers.values())
        steps = sum(self.used >= step * self._limit for step in _STEPS)
        if steps <= self._told:
            self._above_since = now
        elif now - self._above_since >= _TELL_AFTER_S:  # no peak that is over at once
            self._told = steps
            self._tell(
                memory_text.warning(
                    self.used, self._limit, [held for crumb in self._crumbs.all() if crumb.alive for held in crumb.held]
                )
            )
        if self.used < self._limit:
            self._beyond_since = now
        short = self.used > self._machine / 4 and available_bytes() < _LEAST_AVAILABLE * self._machine
        if (
            short
            or self.used > self._limit + max(_BEYOND * self._limit, _BEYOND_BYTES)
            or now - self._beyond_since > _PATIENCE_S
        ):
            self._end(workers, short)

    def _end(self, workers: dict[int, int], short: bool) -> None:
        crumbs = [crumb for crumb in self._crumbs.all() if crumb.alive]
        pid = max(workers, key=lambda p: workers[p])
        at = next((crumb for crumb in crumbs if crumb.pid == pid and crumb.phase != IDLE), None)
        held = [held for crumb in crumbs for held in crumb.held]
        text = memory_text.limit_reached(self.used, self._limit, held, None if at is None else at.doing)
        self.verdict = MemoryLimitReached(f"the machine has next to no memory left; {text}" if short else text)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # it does not come to look by itself

    def within(self, committed: int) -> Within | None:
        """What runs now, after the batch of that number; None if nothing is known of it."""
        known = self._crumbs.all()
        busy = [crumb for crumb in known if crumb.seq > committed]
        if not busy:
            return None
        at_work = [crumb for crumb in busy if crumb.phase != IDLE] or busy
        slowest = min(at_work, key=lambda crumb: crumb.since_us)
        reached = [crumb.reached_us for crumb in busy if crumb.reached_us is not None]
        positions = {stream: at for crumb in busy for stream, at in crumb.positions.items()}
        share = sum(crumb.share for crumb in busy) / max(1, len(known))
        read = max(round(crumb.read * crumb.share) for crumb in busy)
        return Within(_doing(slowest), read, share, min(reached, default=None), positions)

    def death(self, failure: str) -> str | None:
        """One sentence on the worker that died, if Spark's words are of one."""
        if not worker_deaths.of_a_worker(failure):
            return None
        return worker_deaths.died(self._crumbs.all(), log_path(), self._limit, self.killed_for_memory)

    @property
    def killed_for_memory(self) -> bool:
        """Whether the system has killed for want of memory since the run began."""
        return worker_deaths.kills_for_memory() > self._kills


def _doing(crumb: Crumb) -> str:
    if crumb.phase == IDLE:
        return "writing results"
    doing, queries = crumb.doing
    return f"{memory_text.names_of(queries)}: {doing}"


def fraction_of(sources: Mapping[str, Source], positions: Mapping[str, Any]) -> float | None:
    """How much of finite inputs lies before these positions; None if some input has no end."""
    found = [source.fraction(positions.get(name) or source.initial()) for name, source in sources.items()]
    known = [fraction for fraction in found if fraction is not None]
    return min(known) if known and len(known) == len(found) else None
