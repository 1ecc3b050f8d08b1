"""The calls of a server as Flight makes them: each is checked for its token, its role and its bounds, then done by
`serving`.

Invariant: a call that a role may not make touches nothing. Reads and appends under way are bounded; none is left behind
by its end.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.flight as fl

from kigen.links.flight import tokens
from kigen.links.flight.address import Address
from kigen.links.flight.calls import CheckCaller, act, give, take
from kigen.links.flight.counters import TrafficCounters
from kigen.links.flight.protocol import ACTIONS, APPEND, CLOSING, READ, VERSION, Ack, as_flight, parse
from kigen.links.flight.software import software
from kigen.links.flight.tokens import require_role, role_of
from kigen.queue.errors import BadRequest, QueueClosed, QueueError
from kigen.queue.stream_queue import Queue

EMPTY_SCHEMA = pa.schema([])
ROLE = "role"
_MOST_STREAMS = 256  # reads and appends under way
_EMPTY_BATCH = pa.RecordBatch.from_arrays([], schema=EMPTY_SCHEMA)


class CopyProvider(Protocol):
    """Gives the other replica copies of files; see `copies`."""

    def news(self) -> dict[str, Any]: ...

    def listed(self, copy: int) -> dict[str, Any]: ...

    def pieces(self, copy: int, pieces: list[Any], compress: str) -> bytes: ...

    def done(self, copy: int) -> dict[str, Any]: ...


class Server(Protocol):
    """Whose calls these are: `kigen.links.flight.server.LinkServer`."""

    queues: dict[str, Queue]
    about: Callable[[], dict[str, Any]]
    deaf: Callable[[], bool]
    followers: Counter[tuple[str, str]]
    copies: CopyProvider | None
    counters: TrafficCounters
    closing: threading.Event
    address: Address

    @property
    def followed(self) -> list[str]: ...

    def queue(self, name: str) -> Queue: ...

    def was_asked(self, reader: str) -> None: ...


class Service(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow counts as untyped
    def __init__(self, server: Server, location: str, **how: Any) -> None:
        self._server = server  # before the base class: calls may come at once
        self._calls: dict[str, _Put] = {}  # appends under way, by the name their client gave them
        self._streams = threading.BoundedSemaphore(_MOST_STREAMS)
        super().__init__(location, **how)

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        try:
            require_role(_role(context), action.type)
            answer = self._act(context, action.type, action.body)
        except QueueError as error:
            raise as_flight(error) from error
        return iter([fl.Result(answer if isinstance(answer, bytes) else json.dumps(answer).encode())])

    def _act(self, context: Any, kind: str, body: Any) -> dict[str, Any] | bytes:
        if kind not in ACTIONS:
            raise BadRequest(f"action '{kind[:40]}': one of {', '.join(ACTIONS)} is required")
        how = parse(body, ACTIONS[kind])
        if kind == "hello":
            if how["version"] != VERSION:
                raise BadRequest(
                    f"the client speaks version {how['version']}, this server {VERSION}: both must run the same Kigen"
                )
            return {"version": VERSION, "you": context.peer(), "software": software()}
        if kind == "about":
            return self._server.about()
        if kind == "streams":
            return {"streams": sorted(self._server.queues), "counters": self._server.counters.to_json()}
        if kind == "leave":
            if how["call"] in self._calls:
                self._calls[how["call"]].left.set()
            return {}
        if kind.startswith("copy_"):
            return self._copy(kind, how)
        if kind == "open_reader":
            self._server.was_asked(how["name"])
        answer = act(self._server.queue(how["stream"]), kind, how)
        return (
            {**answer, "deaf": self._server.deaf(), "followed": self._server.followed} if kind == "status" else answer
        )

    def _copy(self, kind: str, how: dict[str, Any]) -> dict[str, Any] | bytes:
        desk = self._server.copies
        if desk is None:
            raise BadRequest(
                f"no copies are given at {self._server.address}: its nodes file must say standby = 'passive', too"
            )
        if kind == "copy_news":
            return desk.news()
        if kind == "copy_list":
            return desk.listed(how["copy"])
        if kind == "copy_pieces":
            return desk.pieces(how["copy"], how["pieces"], how["compress"])
        return desk.done(how["copy"])

    def do_get(self, context: Any, ticket: Any) -> Any:
        try:
            require_role(_role(context), tokens.READ)
            how = parse(ticket.ticket, READ)
            queue = self._server.queue(how["stream"])
        except QueueError as error:
            raise as_flight(error) from error
        sent = self._server.counters.of(f"{queue.name}/{how['reader']}")
        messages = give(queue, how, sent, self._gone(context, threading.Event()))
        if how["follow_s"] > 0:
            messages = self._counted((queue.name, how["reader"]), messages)
        return fl.GeneratorStream(EMPTY_SCHEMA, _for_flight(self._within_bounds(messages)))

    def _within_bounds(self, messages: Iterator[bytes]) -> Iterator[bytes]:
        with self._room():
            yield from messages

    @contextmanager
    def _room(self) -> Iterator[None]:
        if not self._streams.acquire(blocking=False):
            raise BadRequest(f"{self._server.address} has {_MOST_STREAMS} reads and appends under way: end some first")
        try:
            yield
        finally:
            self._streams.release()

    def _counted(self, who: tuple[str, str], messages: Iterator[bytes]) -> Iterator[bytes]:
        followers = self._server.followers
        followers[who] += 1
        try:
            yield from messages
        finally:
            followers[who] -= 1
            if followers[who] <= 0:
                del followers[who]

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        put = _Put(writer)
        name = ""
        try:
            require_role(_role(context), tokens.APPEND)
            how = parse(descriptor.command or b"", APPEND)
            queue = self._server.queue(how["stream"])
            name = how["call"] or uuid.uuid4().hex
            self._calls[name] = put
            taken = self._server.counters.of(f"{queue.name}/{how['producer']}")
            gone = self._gone(context, put.left)
            with self._room():
                for ack in take(queue, how, _messages(reader, gone), taken, gone):
                    put.write(ack)
        except QueueError as error:
            raise as_flight(error) from error
        finally:
            self._calls.pop(name, None)
            put.end()

    def say_closing(self) -> None:
        for put in list(self._calls.values()):
            with suppress(fl.FlightError, pa.ArrowException, OSError):
                put.write(CLOSING)

    def _gone(self, context: Any, left: threading.Event) -> CheckCaller:
        def check() -> None:
            if self._server.closing.is_set():
                raise QueueClosed("the server is closing")
            if left.is_set() or context.is_cancelled():
                raise QueueClosed("the client is gone")

        return check


class _Put:
    """A stream of appends under way. Flight's writer must not be touched once the call has returned: hence the lock and
    the end."""

    def __init__(self, writer: Any) -> None:
        self._writer: Any = writer
        self._lock = threading.Lock()
        self.left = threading.Event()  # its client left

    def write(self, ack: Ack) -> None:
        with self._lock:
            if self._writer is not None:
                self._writer.write(ack.pack())

    def end(self) -> None:
        with self._lock:
            self._writer = None


def _for_flight(messages: Iterator[bytes]) -> Iterator[tuple[Any, bytes]]:
    try:
        for message in messages:
            yield _EMPTY_BATCH, message
    except QueueError as error:
        raise as_flight(error) from error


def _messages(reader: Any, gone: CheckCaller) -> Iterator[Any]:
    while True:
        try:
            message = reader.read_chunk().app_metadata
        except StopIteration:
            return
        gone()
        yield message


class TokenCheck(fl.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow counts as untyped
    def __init__(self, secret: str) -> None:
        self._secret = secret

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> Any:
        role = role_of(self._secret, str(headers.get("authorization", [""])[0]))
        if role is None:
            raise fl.FlightUnauthenticatedError("the token is missing or wrong")
        return _Caller(role)


class _Caller(fl.ServerMiddleware):  # type: ignore[misc]  # pyarrow counts as untyped
    def __init__(self, role: str) -> None:
        self.role = role


def _role(context: Any) -> str:
    return str(context.get_middleware(ROLE).role)
