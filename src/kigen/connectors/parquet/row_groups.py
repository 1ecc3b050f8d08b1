"""Decodes row groups of a stream's parquet files ahead of time, in a thread, while the current batch is computed.

Invariant: `get` returns what decoding the groups returns, whichever thread decoded them; an error in a group is raised
when that group is requested. Reading ahead begins when groups are requested in order. It reaches as far as the last
request did, within `AHEAD_BYTES`. Cost: a group is decoded once while requests pass through it in order; memory holds
the groups ahead and the group requested last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import islice

import pyarrow as pa

Group = tuple[str, int]  # file, number
AHEAD_BYTES = 512 << 20


class RowGroups:
    """Row groups by (file, number). `decode` reads a group; `following` yields the groups after one, in order."""

    def __init__(self, decode: Callable[[Group], pa.Table], following: Callable[[Group], Iterator[Group]]) -> None:
        self._decode, self._following = decode, following
        self._known: dict[Group, Future[pa.Table]] = {}  # decoded, or being decoded
        self._goal: list[Group] = []  # to be decoded ahead
        self._last: Group | None = None  # requested
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def get(self, groups: list[Group]) -> list[pa.Table]:
        """Returns the tables of neighbouring groups."""
        in_order = self._last is not None and groups[0] in (self._last, *islice(self._following(self._last), 1))
        with self._lock:
            for group in [g for g in self._known if not in_order or g < groups[0]]:
                del self._known[group]
        tables = [self._one(group) for group in groups]
        ahead = list(islice(self._following(groups[-1]), len(groups))) if in_order else []
        with self._lock:
            self._last, self._goal = groups[-1], ahead
            kept = {groups[-1], *ahead}
            self._known = {group: known for group, known in self._known.items() if group in kept}
            self._known.setdefault(groups[-1], _done(tables[-1]))
            if ahead and self._thread is None:
                self._thread = threading.Thread(target=self._work, name="read-ahead", daemon=True)
                self._thread.start()
        return tables

    def _one(self, group: Group) -> pa.Table:
        with self._lock:
            known = self._known.get(group)
        return self._decode(group) if known is None else known.result()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            group, future = task
            try:
                future.set_result(self._decode(group))
            except Exception as error:  # raised when the group is requested
                future.set_exception(error)

    def _next(self) -> tuple[Group, Future[pa.Table]] | None:
        with self._lock:
            done = [
                future.result().nbytes
                for future in self._known.values()
                if future.done() and future.exception() is None
            ]
            group = next((g for g in self._goal if g not in self._known), None)
            if group is None or sum(done) > AHEAD_BYTES:
                self._thread = None
                return None
            future = self._known[group] = Future()
            return group, future


def _done(table: pa.Table) -> Future[pa.Table]:
    future: Future[pa.Table] = Future()
    future.set_result(table)
    return future
