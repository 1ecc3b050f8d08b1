"""Calls of a server as Flight makes them: checks token, role and bounds of each call, then `calls` does the work.

Invariant: a call that its role may not make has no effect. The number of reads and appends under way is bounded, and a
call that ends leaves none behind.
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
from kigen.links.flight.calls import CheckCaller, serve_action, serve_append, serve_read
from kigen.links.flight.counters import TrafficCounters
from kigen.links.flight.protocol import ACTIONS, APPEND, CLOSING, READ, VERSION, Ack, as_flight, parse
from kigen.links.flight.software import software
from kigen.links.flight.token_check import role_of_call
from kigen.links.flight.tokens import require_role
from kigen.queue.errors import BadRequest, QueueClosed, QueueError
from kigen.queue.stream_queue import Queue

EMPTY_SCHEMA = pa.schema([])
_MOST_STREAMS = 256  # reads and appends under way at once
_EMPTY_BATCH = pa.RecordBatch.from_arrays([], schema=EMPTY_SCHEMA)


class CopyProvider(Protocol):
    """Provides copies of files for the other replica; see `kigen.links.copies`."""

    def news(self) -> dict[str, Any]: ...

    def listed(self, copy: int) -> dict[str, Any]: ...

    def pieces(self, copy: int, pieces: list[Any], compress: str) -> bytes: ...

    def done(self, copy: int) -> dict[str, Any]: ...


class Server(Protocol):
    """What the calls need of `kigen.links.flight.server.LinkServer`."""

    queues: dict[str, Queue]
    about: Callable[[], dict[str, Any]]
    cut_off: Callable[[], bool]
    followers: Counter[tuple[str, str]]
    on_followed: Callable[[], None]
    copies: CopyProvider | None
    counters: TrafficCounters
    closing: threading.Event
    address: Address

    @property
    def followed(self) -> list[str]: ...

    def queue(self, name: str) -> Queue: ...

    def was_asked(self, reader: str) -> None: ...


class Service(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow counts as untyped
    """Flight server behind a LinkServer."""

    def __init__(self, server: Server, location: str, **options: Any) -> None:
        self._server = server  # before the base class starts: calls may come at once
        self._calls: dict[str, _AppendCall] = {}  # appends under way, by the name that the client chose
        self._streams = threading.BoundedSemaphore(_MOST_STREAMS)
        super().__init__(location, **options)

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        try:
            require_role(role_of_call(context), action.type)
            answer = self._act(context, action.type, action.body)
        except QueueError as error:
            raise as_flight(error) from error
        return iter([fl.Result(answer if isinstance(answer, bytes) else json.dumps(answer).encode())])

    def _act(self, context: Any, kind: str, body: Any) -> dict[str, Any] | bytes:
        """Does one action and returns its answer."""
        if kind not in ACTIONS:
            raise BadRequest(f"action '{kind[:40]}': one of {', '.join(ACTIONS)} is required")
        fields = parse(body, ACTIONS[kind])
        if kind == "hello":
            if fields["version"] != VERSION:
                raise BadRequest(
                    f"the client speaks version {fields['version']}, the server {VERSION}: both must run the same Kigen"
                )
            return {"version": VERSION, "you": context.peer(), "software": software()}
        if kind == "about":
            return self._server.about()
        if kind == "streams":
            return {"streams": sorted(self._server.queues), "counters": self._server.counters.to_json()}
        if kind == "leave":
            if fields["call"] in self._calls:
                self._calls[fields["call"]].left.set()
            return {}
        if kind.startswith("copy_"):
            return self._copy(kind, fields)
        if kind == "open_reader":
            self._server.was_asked(fields["name"])
        answer = serve_action(self._server.queue(fields["stream"]), kind, fields)
        return (
            {**answer, "deaf": self._server.cut_off(), "followed": self._server.followed}
            if kind == "status"
            else answer
        )

    def _copy(self, kind: str, fields: dict[str, Any]) -> dict[str, Any] | bytes:
        provider = self._server.copies
        if provider is None:
            raise BadRequest(
                f"{self._server.address} provides no copies: its nodes file must say standby = 'passive', too"
            )
        if kind == "copy_news":
            return provider.news()
        if kind == "copy_list":
            return provider.listed(fields["copy"])
        if kind == "copy_pieces":
            return provider.pieces(fields["copy"], fields["pieces"], fields["compress"])
        return provider.done(fields["copy"])

    def do_get(self, context: Any, ticket: Any) -> Any:
        try:
            require_role(role_of_call(context), tokens.READ)
            fields = parse(ticket.ticket, READ)
            queue = self._server.queue(fields["stream"])
        except QueueError as error:
            raise as_flight(error) from error
        sent = self._server.counters.of(f"{queue.name}/{fields['reader']}")
        messages = serve_read(queue, fields, sent, self._caller_check(context, threading.Event()))
        if fields["follow_s"] > 0:
            messages = self._counted((queue.name, fields["reader"]), messages)
        return fl.GeneratorStream(EMPTY_SCHEMA, _for_flight(self._within_bounds(messages)))

    def _within_bounds(self, messages: Iterator[bytes]) -> Iterator[bytes]:
        with self._room():
            yield from messages

    @contextmanager
    def _room(self) -> Iterator[None]:
        if not self._streams.acquire(blocking=False):
            raise BadRequest(
                f"{self._server.address} has {_MOST_STREAMS} reads and appends under way: end some of them first"
            )
        try:
            yield
        finally:
            self._streams.release()

    def _counted(self, who: tuple[str, str], messages: Iterator[bytes]) -> Iterator[bytes]:
        followers = self._server.followers
        followers[who] += 1
        try:
            self._server.on_followed()
            yield from messages
        finally:
            followers[who] -= 1
            if followers[who] <= 0:
                del followers[who]

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        call = _AppendCall(writer)
        name = ""
        try:
            require_role(role_of_call(context), tokens.APPEND)
            fields = parse(descriptor.command or b"", APPEND)
            queue = self._server.queue(fields["stream"])
            name = fields["call"] or uuid.uuid4().hex
            self._calls[name] = call
            taken = self._server.counters.of(f"{queue.name}/{fields['producer']}")
            check_caller = self._caller_check(context, call.left)
            with self._room():
                for ack in serve_append(queue, fields, _messages(reader, check_caller), taken, check_caller):
                    call.write(ack)
        except QueueError as error:
            raise as_flight(error) from error
        finally:
            self._calls.pop(name, None)
            call.end()

    def say_closing(self) -> None:
        """Asks the clients of all appends under way to end their calls."""
        for call in list(self._calls.values()):
            with suppress(fl.FlightError, pa.ArrowException, OSError):
                call.write(CLOSING)

    def _caller_check(self, context: Any, left: threading.Event) -> CheckCaller:
        """Returns a function that raises QueueClosed when nobody waits for the call any more."""

        def check() -> None:
            if self._server.closing.is_set():
                raise QueueClosed("the server is closing")
            if left.is_set() or context.is_cancelled():
                raise QueueClosed("the client has left")

        return check


class _AppendCall:
    """An append call under way. Flight's writer must not be touched after the call returned: hence the lock and
    `end`.
    """

    def __init__(self, writer: Any) -> None:
        self._writer: Any = writer
        self._lock = threading.Lock()
        self.left = threading.Event()  # set when its client has left

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


def _messages(reader: Any, check_caller: CheckCaller) -> Iterator[Any]:
    while True:
        try:
            message = reader.read_chunk().app_metadata
        except StopIteration:
            return
        check_caller()
        yield message
