"""Follows the changes of a query while a run goes on, in Python: `for change in engine.subscribe("hot")`.

A subscription begins with the relation as it is: an insert per row. Then come the changes, in their order, as soon as
they are committed. So a reader that applies all of them has the relation as it is now. A stream has no relation: it
begins with what comes next. The iteration ends with the run, after the last change.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

from kigen.lifetimes.results.changes import INSERT

Change = dict[str, Any]  # `_op`, `_at` and the columns, as in JSON: times are text in ISO-8601
_POLL_S = 0.01


class FollowedLog(Protocol):
    """What a subscription reads (kigen.connectors.changes_log)."""

    is_stream: bool
    end: int
    added_by: int  # number of the change of the app that added the query

    def read(self, after: int, most_bytes: int = ...) -> tuple[bytes, int]: ...

    def current(self) -> tuple[list[bytes], str | None, int]: ...


class Subscription:
    """Iterates the changes of one query, by `for` or by `async for`."""

    def __init__(self, find: Callable[[], FollowedLog | None], is_active: Callable[[], bool]) -> None:
        """`find` returns the log of the query: another one after a change of the app, None once it was dropped."""
        log = find()
        assert log is not None, "there is such a query"
        self._log, self._find, self._is_active = log, find, is_active
        self._after = log.end
        self._ready: deque[Change] = deque()
        self._closed = False
        if not log.is_stream:
            rows, at, self._after = log.current()
            self._ready.extend({"_op": INSERT, "_at": at, **json.loads(row)} for row in rows)

    def close(self) -> None:
        """Ends the iteration, also from another thread."""
        self._closed = True

    def take(self) -> list[Change]:
        """Returns the changes that are there, without waiting."""
        self._fill()
        taken = list(self._ready)
        self._ready.clear()
        return taken

    def relation(self) -> list[Change]:
        """Returns the rows that are true now, without times."""
        return [json.loads(row) for row in self._log.current()[0]]

    def _fill(self) -> bool:
        """Reads what is new. Returns whether there is anything."""
        self._look_up()
        if not self._ready and self._log.end > self._after:
            data, self._after = self._log.read(self._after)
            self._ready.extend(json.loads(line) for line in data.splitlines())
        return bool(self._ready)

    def _look_up(self) -> None:
        """Turns to the log of the changed app. Ends with a query that was dropped, or dropped and added."""
        found = self._find()
        if found is None or found.added_by != self._log.added_by:
            self._closed = self._closed or self._log.end <= self._after
        else:
            self._log = found

    def _waits(self) -> bool:
        """Whether there may be more. Looks at the run before it looks at the log, so that nothing is missed."""
        active = self._is_active()
        return not self._fill() and active and not self._closed

    def __iter__(self) -> Iterator[Change]:
        while True:
            while self._waits():
                time.sleep(_POLL_S)
            if self._closed or not self._ready:
                return
            yield self._ready.popleft()

    async def __aiter__(self) -> AsyncIterator[Change]:
        while True:
            while self._waits():
                await asyncio.sleep(_POLL_S)
            if self._closed or not self._ready:
                return
            yield self._ready.popleft()
