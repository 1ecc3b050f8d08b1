"""Watches the ends of partitions in a thread on the driver, so that admission knows what has arrived.

It asks every few milliseconds while messages come, and less often while none do; it finds new partitions every few
seconds. A broker that is away is waited for, with one warning. Whether a partition is idle is decided here, by the
clock of this process, and recorded in positions, so that a replay finds the same.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from kigen.connectors.kafka.cluster import Cluster, NoBroker
from kigen.connectors.kafka.path import Ints, Path
from kigen.connectors.source_base import InputError, Position

_BUSY_S, _QUIET_S, _AWAY_S = 0.003, 0.02, 0.5
_TOPICS_S = 3.0  # how often new partitions are looked for
_GONE_S = 30.0  # a topic that is missing for so long was deleted
_FIRST_S = 60.0
_log = logging.getLogger("kigen")


class Watcher:
    """What has arrived in the partitions of one stream. `idle_us`: None if no partition is ever idle."""

    def __init__(
        self, cluster: Cluster, owner: str, marks: Mapping[int, Mapping[str, int]], idle_us: int | None
    ) -> None:
        now_us = _now_us()
        self._cluster, self._owner, self._idle_us = cluster, owner, idle_us
        self._path = Path(marks, now_us)
        self._changed_us = dict.fromkeys(self._path.names, now_us)
        self._lock = threading.Lock()
        self._failed: InputError | None = None
        self._seen = threading.Event()
        self._closed = threading.Event()
        self._missing_since: float | None = None
        self._away = False
        threading.Thread(target=self._work, name=f"watch {owner}", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def known(self) -> int:
        """Returns how many offsets have been seen; waits for the first look. Raises the error that ended watching."""
        self._seen.wait(_FIRST_S)
        if self._failed is not None:
            raise self._failed
        with self._lock:
            return self._path.known

    def arrivals_us(self, first: int, end: int) -> Ints:
        with self._lock:
            return self._path.arrivals_us(first, end)

    def forget_before(self, index: int) -> None:
        with self._lock:
            self._path.forget_before(index)

    def position(self, index: int) -> Position:
        """Returns the partition offsets at an index, and which partitions are idle for a reader that has come there."""
        with self._lock:
            offsets, ends = self._path.offsets(index), self._path.ends()
            position: Position = {"index": index, "partitions": offsets}
            if self._idle_us is None:
                return position
            now_us, idle_us = _now_us(), self._idle_us
            idle = [
                name
                for name, offset in offsets.items()
                if offset == ends[name] and now_us - self._changed_us[name] >= idle_us
            ]
            if idle:
                position["idle"] = idle
            if idle and len(idle) == len(offsets):
                since_us = max(self._changed_us[name] for name in idle) + idle_us
                position["silence"] = [since_us, now_us - since_us]
            return position

    # --- the thread --------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        partitions, looked = list(self._path.names), 0.0
        pause_s = _BUSY_S
        while not self._closed.is_set():
            try:
                if time.monotonic() - looked > _TOPICS_S:
                    partitions, looked = self._all_partitions(partitions), time.monotonic()
                grown = self._take(self._cluster.ends(partitions))
                self._back()
                pause_s = _BUSY_S if grown else min(_QUIET_S, pause_s * 1.2)
            except NoBroker as error:
                self._warn_of_absence(error)
                pause_s = _AWAY_S
            except InputError as error:
                self._failed = error
                self._seen.set()
                return
            self._closed.wait(pause_s)

    def _all_partitions(self, known: list[str]) -> list[str]:
        """Returns all partitions. A topic that is missing for long ends the run: it was deleted."""
        try:
            found = self._cluster.partitions()
            gone = [name for name in known if name not in found]
            if gone:
                raise InputError(f"{self._owner}: partition {gone[0]} no longer exists. {_TODO}")
        except InputError:
            now = time.monotonic()
            self._missing_since = self._missing_since or now
            if now - self._missing_since > _GONE_S:
                raise
            return known
        self._missing_since = None
        return [*known, *(name for name in found if name not in known)]

    def _take(self, ends: Mapping[str, int]) -> bool:
        now_us = _now_us()
        with self._lock:
            before = self._path.ends()
            for name, end in ends.items():
                if end < before.get(name, 0):
                    raise InputError(
                        f"{self._owner}: {name} ends at offset {end}, but it was read up to {before[name]}: was the "
                        f"topic deleted and created again? {_TODO}"
                    )
            grown = self._path.extend(ends, now_us)
            for name in grown:
                self._changed_us[name] = now_us
        self._seen.set()
        return bool(grown)

    def _warn_of_absence(self, error: NoBroker) -> None:
        if not self._away:
            self._away = True
            _log.warning("warning: %s: no broker answers (%s); the run waits for it", self._owner, error)

    def _back(self) -> None:
        if self._away:
            self._away = False
            _log.warning("%s: the broker answers again", self._owner)


_TODO = "What the checkpoint refers to is lost: start from the beginning with a new --checkpoint directory"


def _now_us() -> int:
    return time.time_ns() // 1000
