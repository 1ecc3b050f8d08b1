"""Queues served over Arrow Flight: DoGet reads, DoPut appends with an ack a unit, DoAction does the rest (`protocol.ACTIONS`).

Every message of DoGet and DoPut is one record (`record`) in the metadata of an empty Arrow batch: blocks pass as they lie in the queue,
compressed or not, and are not decoded on the way. Loopback by default; see `address`.

Invariant: only queues that were added can be reached; clients create none. With a token, no call gets past its check.
"""

from __future__ import annotations

import hmac
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.flight as fl

from kigen.links.address import Address, Security, may_serve
from kigen.links.counters import Counters
from kigen.links.errors import BadRequest, LinkError, LinkRefused, QueueClosed, UnknownStream
from kigen.links.protocol import ACTIONS, APPEND, CLOSING, READ, VERSION, Ack, as_flight, parse
from kigen.links.queue import Queue
from kigen.links.serving import Gone, act, give, take

EMPTY_SCHEMA = pa.schema([])
_CLOSING_S = 5.0
_EMPTY_BATCH = pa.RecordBatch.from_arrays([], schema=EMPTY_SCHEMA)


class CopyDesk(Protocol):
    """Gives the other replica copies of files; see `copies`."""

    def news(self) -> dict[str, Any]: ...

    def listed(self, copy: int) -> dict[str, Any]: ...

    def pieces(self, copy: int, pieces: list[Any], compress: str) -> bytes: ...

    def done(self, copy: int) -> dict[str, Any]: ...


class LinkServer:
    """Serves the queues it is given from the moment it exists. Closing it leaves the queues open: they belong to the caller."""

    def __init__(
        self,
        queues: Iterable[Queue] = (),
        address: str = "127.0.0.1:0",
        security: Security | None = None,
        about: Callable[[], dict[str, Any]] = dict,
        deaf: Callable[[], bool] = bool,
    ) -> None:
        """`about`: what whoever serves has to say of itself (JSON). `deaf`: whether nothing new can come of it for
        now, since it is cut off from those it reads from, or not at work yet."""
        security = security or Security()
        where = Address.parse(address)
        tls = may_serve(where, security)
        self.queues: dict[str, Queue] = {q.name: q for q in queues}
        self.about, self.deaf = about, deaf
        self.followers: Counter[tuple[str, str]] = Counter()  # (stream, reader) that follow now
        self.asked: dict[str, float] = {}  # reader -> when it last wanted to follow a stream, there or not (monotonic seconds)
        self.copies: CopyDesk | None = None  # who gives copies of this process's files, if anybody does
        self.counters = Counters()  # sent to each reader and taken from each producer, as "stream/name"
        self.closing = threading.Event()
        try:
            self._service = _Service(
                self,
                f"grpc{'+tls' if tls else ''}://{where}",
                tls_certificates=[(security.certificate, security.key)] if tls else None,
                middleware={"token": _TokenCheck(security.token)} if security.token else None,
            )
        except (pa.ArrowException, OSError) as error:
            raise LinkRefused(f"cannot serve at {where}: {error}") from error
        self.address = Address(where.host, self._service.port)

    @property
    def followed(self) -> list[str]:
        """Who follows a stream here, or was here and has not been missed yet."""
        return sorted(f"{stream}/{reader}" for (stream, reader), count in list(self.followers.items()) if count > 0)

    def add(self, queue: Queue) -> None:
        self.queues[queue.name] = queue

    def remove(self, queue: Queue) -> None:
        self.queues.pop(queue.name, None)

    def queue(self, name: str) -> Queue:
        found = self.queues.get(name)
        if found is None:
            streams = sorted(self.queues)[:20]
            raise UnknownStream(f"no stream '{name}' at {self.address}: there is {', '.join(streams) or 'none'}", {"streams": streams})
        return found

    def close(self) -> None:
        """Ends every call. A client that does not react within some seconds is left alone: its next message is refused."""
        self.closing.set()
        self._service.say_closing()
        ending = threading.Thread(target=self._service.shutdown, name=f"end {self.address}", daemon=True)
        ending.start()
        ending.join(_CLOSING_S)

    def __enter__(self) -> LinkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Service(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow counts as untyped
    def __init__(self, server: LinkServer, location: str, **how: Any) -> None:
        self._server = server  # before the base class: calls may come at once
        self._calls: dict[str, _Put] = {}  # appends under way, by the name their client gave them
        super().__init__(location, **how)

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        try:
            answer = self._act(context, action.type, action.body)
        except LinkError as error:
            raise as_flight(error) from error
        return iter([fl.Result(answer if isinstance(answer, bytes) else json.dumps(answer).encode())])

    def _act(self, context: Any, kind: str, body: Any) -> dict[str, Any] | bytes:
        if kind not in ACTIONS:
            raise BadRequest(f"action '{kind[:40]}': one of {', '.join(ACTIONS)} is required")
        how = parse(body, ACTIONS[kind])
        if kind == "hello":
            if how["version"] != VERSION:
                raise BadRequest(f"the client speaks version {how['version']}, this server {VERSION}: both must run the same Kigen")
            return {"version": VERSION, "you": context.peer()}
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
            self._server.asked[how["name"]] = time.monotonic()
        answer = act(self._server.queue(how["stream"]), kind, how)
        return {**answer, "deaf": self._server.deaf(), "followed": self._server.followed} if kind == "status" else answer

    def _copy(self, kind: str, how: dict[str, Any]) -> dict[str, Any] | bytes:
        desk = self._server.copies
        if desk is None:
            raise BadRequest(f"no copies are given at {self._server.address}: its nodes file must say standby = 'passive', too")
        if kind == "copy_news":
            return desk.news()
        if kind == "copy_list":
            return desk.listed(how["copy"])
        if kind == "copy_pieces":
            return desk.pieces(how["copy"], how["pieces"], how["compress"])
        return desk.done(how["copy"])

    def do_get(self, context: Any, ticket: Any) -> Any:
        try:
            how = parse(ticket.ticket, READ)
            queue = self._server.queue(how["stream"])
        except LinkError as error:
            raise as_flight(error) from error
        sent = self._server.counters.of(f"{queue.name}/{how['reader']}")
        messages = give(queue, how, sent, self._gone(context, threading.Event()))
        if how["follow_s"] > 0:
            messages = self._counted((queue.name, how["reader"]), messages)
        return fl.GeneratorStream(EMPTY_SCHEMA, _for_flight(messages))

    def _counted(self, who: tuple[str, str], messages: Iterator[bytes]) -> Iterator[bytes]:
        followers = self._server.followers
        followers[who] += 1
        try:
            yield from messages
        finally:
            followers[who] -= 1

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        put = _Put(writer)
        name = ""
        try:
            how = parse(descriptor.command or b"", APPEND)
            queue = self._server.queue(how["stream"])
            name = how["call"] or uuid.uuid4().hex
            self._calls[name] = put
            taken = self._server.counters.of(f"{queue.name}/{how['producer']}")
            gone = self._gone(context, put.left)
            for ack in take(queue, how, _messages(reader, gone), taken, gone):
                put.write(ack)
        except LinkError as error:
            raise as_flight(error) from error
        finally:
            self._calls.pop(name, None)
            put.end()

    def say_closing(self) -> None:
        for put in list(self._calls.values()):
            with suppress(fl.FlightError, pa.ArrowException, OSError):
                put.write(CLOSING)

    def _gone(self, context: Any, left: threading.Event) -> Gone:
        def check() -> None:
            if self._server.closing.is_set():
                raise QueueClosed("the server is closing")
            if left.is_set() or context.is_cancelled():
                raise QueueClosed("the client is gone")

        return check


class _Put:
    """A stream of appends under way. Flight's writer must not be touched once the call has returned: hence the lock and the end."""

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
    except LinkError as error:
        raise as_flight(error) from error


def _messages(reader: Any, gone: Gone) -> Iterator[Any]:
    while True:
        try:
            message = reader.read_chunk().app_metadata
        except StopIteration:
            return
        gone()
        yield message


class _TokenCheck(fl.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow counts as untyped
    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        given = headers.get("authorization", [""])[0]
        if not hmac.compare_digest(given.encode(), self._expected):
            raise fl.FlightUnauthenticatedError("the token is missing or wrong")
