"""Hands a request on to another server on this machine, and its answer back as it comes.

The request goes out once, on a connection of its own. Invariant: an answer that breaks off breaks off here, too: the
client never takes a part of it for the whole. Cost: one connection for each request under way.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass

import h11
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from kigen.web.requests import Limits, Refused, read_body

_TAKEN_ON = ("content-type", "content-encoding", "idempotency-key", "last-event-id")  # headers of requests
_HANDED_BACK = ("content-type", "content-length", "retry-after", "cache-control", "x-accel-buffering")
_CONNECT_S, _ANSWER_S = 5.0, 60.0
_LOOK_S = 0.5  # how often a stream of events looks whether the server closes
_PIECE = 1 << 16


@dataclass(frozen=True)
class Backend:
    """A server, with the token that it takes."""

    name: str
    address: str  # host:port
    token: str


class _Call:
    """One request to a backend, and its answer."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._state = backend, h11.Connection(h11.CLIENT)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, method: str, target: bytes, headers: list[tuple[str, str]], body: bytes) -> h11.Response:
        """Sends the request. Returns the head of the answer."""
        host, _, port = self._backend.address.rpartition(":")
        async with asyncio.timeout(_CONNECT_S):
            self._reader, self._writer = await asyncio.open_connection(host.strip("[]"), int(port))
        mine = [
            ("Host", self._backend.address),
            ("Authorization", f"Bearer {self._backend.token}"),
            ("Connection", "close"),
            ("Content-Length", str(len(body))),
        ]
        out = self._state.send(h11.Request(method=method, target=target, headers=[*mine, *headers]))
        out = (
            (out or b"")
            + (self._state.send(h11.Data(data=body)) or b"")
            + (self._state.send(h11.EndOfMessage()) or b"")
        )
        self._writer.write(out)
        async with asyncio.timeout(_ANSWER_S):
            await self._writer.drain()
            while True:
                event = await self._event()
                if isinstance(event, h11.Response):
                    return event
                if isinstance(event, h11.ConnectionClosed):
                    raise ConnectionError("no answer came")

    async def body(self, closing: threading.Event) -> AsyncIterator[bytes]:
        """Yields the body of the answer, until its end or until this server closes."""
        try:
            waiting: asyncio.Task[object] | None = None
            while not closing.is_set():
                waiting = waiting or asyncio.ensure_future(self._event())
                done, _ = await asyncio.wait({waiting}, timeout=_LOOK_S)
                if not done:
                    continue
                event, waiting = waiting.result(), None
                if isinstance(event, h11.Data):
                    yield bytes(event.data)
                elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                    return
            if waiting is not None:
                waiting.cancel()
        finally:
            self.close()

    async def _event(self) -> object:
        assert self._reader is not None
        while (event := self._state.next_event()) is h11.NEED_DATA:
            self._state.receive_data(await self._reader.read(_PIECE))
        return event

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


async def forwarded(request: Request, backend: Backend, limits: Limits, closing: threading.Event) -> Response:
    """Returns what a backend answers to a request."""
    body = await read_body(request, limits) if request.method == "POST" else b""
    headers = [(name, request.headers[name]) for name in _TAKEN_ON if name in request.headers]
    target: bytes = request.scope["raw_path"]
    query: bytes = request.scope["query_string"]
    call = _Call(backend)
    try:
        answer = await call.send(request.method, target + (b"?" + query if query else b""), headers, body)
    except (OSError, TimeoutError, h11.ProtocolError) as error:
        call.close()
        message = f"node {backend.name} does not answer now: try again, with the same Idempotency-Key if there is one"
        raise Refused(503, message, {"Retry-After": "1"}) from error
    given = {name.decode(): value.decode() for name, value in answer.headers}
    kept = {name: value for name, value in given.items() if name in _HANDED_BACK}
    return StreamingResponse(call.body(closing), answer.status_code, kept)


async def fetched(backend: Backend, path: str) -> tuple[int, str]:
    """Returns the status and the text that a backend answers; 503 if it cannot be reached."""
    call = _Call(backend)
    try:
        answer = await call.send("GET", path.encode(), [], b"")
        parts = [part async for part in call.body(threading.Event())]
    except (OSError, h11.ProtocolError):
        return 503, ""
    finally:
        call.close()
    return answer.status_code, b"".join(parts).decode()
