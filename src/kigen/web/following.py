"""`GET /queries/NAME` and `GET /queries/NAME/changes`: what is true now, and what changes.

Changes are server-sent events; the id of an event continues a broken connection (`Last-Event-ID`). Invariant: a reader
that takes the relation, and then follows from its event, misses nothing and sees nothing twice. Cost: a reader looks
every 20 ms whether there is news; it holds no thread.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from kigen.connectors.changes_log import ChangesLog, EventGone
from kigen.web.requests import Limits, Refused
from kigen.web.served import Served

_LOOK_S = 0.02
_HEARTBEAT_S = 15.0
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Following:
    """Both endpoints. `closing` ends all streams."""

    def __init__(self, served: Served, limits: Limits, closing: threading.Event) -> None:
        self._served, self._limits, self._closing = served, limits, closing
        self._followers = 0

    async def queries(self, request: Request) -> Response:
        return JSONResponse(
            {
                "queries": [
                    {"name": q.name, "columns": [c.name for c in q.schema], "is_stream": q.root.is_stream}
                    for q in self._served.app.queries
                    if not q.sent
                ]
            }
        )

    async def relation(self, request: Request) -> Response:
        name, log = self._log(request)
        if log.is_stream:
            raise Refused(409, f"query '{name}' gives a stream, not a relation: follow /queries/{name}/changes")
        rows, changed_at, event = await run_in_threadpool(log.current)
        head = {"query": name, "columns": [c.name for c in log.schema], "as_of": changed_at, "event": str(event)}
        body = json.dumps(head, ensure_ascii=False).encode()[:-1] + b', "rows": [' + b",".join(rows) + b"]}"
        return Response(body, media_type="application/json", headers=_HEADERS)

    async def changes(self, request: Request) -> Response:
        name, log = self._log(request)
        given = request.headers.get("last-event-id") or request.query_params.get("after")
        after = log.end if given is None else _event(given)
        try:
            await run_in_threadpool(log.read, after, 1)
        except EventGone as error:
            hint = f"read /queries/{name} and follow from its event"
            raise Refused(410, f"{error}; {hint}") from error
        if self._followers >= self._limits.followers:
            raise Refused(503, "too many readers of changes at once: try again", {"Retry-After": "5"})
        return StreamingResponse(self._events(name, log, after), media_type="text/event-stream", headers=_HEADERS)

    async def _events(self, name: str, log: ChangesLog, after: int) -> AsyncIterator[bytes]:
        self._followers += 1
        try:
            said = time.monotonic()
            yield b": changes\n\n"
            while not self._closing.is_set():
                now = self._served.followed.get(name)
                if now is None or now.added_by != log.added_by:
                    return  # the query was dropped
                log = now  # another one after a change of the app
                if log.end > after:
                    data, last = await run_in_threadpool(log.read, after)
                    yield _as_events(data, after)
                    after, said = last, time.monotonic()
                elif time.monotonic() - said > _HEARTBEAT_S:
                    yield b": nothing new\n\n"
                    said = time.monotonic()
                else:
                    await asyncio.sleep(_LOOK_S)
        except EventGone:
            return  # the reader is too slow: it is told when it comes back
        finally:
            self._followers -= 1

    def _log(self, request: Request) -> tuple[str, ChangesLog]:
        name = request.path_params["name"]
        if name not in self._served.followed:
            there = ", ".join(self._served.followed) or "none"
            raise Refused(404, f"no query '{name}' can be followed; queries: {there}")
        return name, self._served.followed[name]


def _as_events(data: bytes, after: int) -> bytes:
    parts: list[bytes] = []
    for line in data.splitlines(keepends=True):
        after += len(line)
        parts.append(b"id: %d\ndata: %s\n" % (after, line))
    return b"".join(parts)


def _event(text: str) -> int:
    if not text.isdigit() or len(text) > 18:
        raise Refused(400, f"event {text!r}: the id of an event is a number")
    return int(text)
