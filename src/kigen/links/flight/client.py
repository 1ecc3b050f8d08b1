"""Link: the client side of the queues of one server. Reads by offset, acknowledges, and does all else a queue can do.

`LinkWriter` appends. `read` asks once, and may wait at the server for more (long polling). `follow` keeps yielding as
tuples and watermarks come, over as many connections as needed, from the offset that it had reached. `received` and
`wire` count the traffic.

Invariant: `follow` yields every tuple from its first offset on exactly once and in order, or raises.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from kigen.links.errors import LinkDown, LinkError
from kigen.links.flight.address import Security
from kigen.links.flight.connection import Connection, Patience
from kigen.links.flight.counters import TrafficCounter, WireBytes
from kigen.links.flight.protocol import request
from kigen.queue.errors import BadRequest
from kigen.queue.payload import decode, join
from kigen.queue.queue_files import state_of
from kigen.queue.record import STATE, from_message

_GRACE_S = 10.0  # added to the time that a call may take, before the call counts as lost


@dataclass(frozen=True)
class Received:
    """Tuples [first, next), and the watermark that holds for a reader that has them."""

    first: int
    next: int
    batches: list[pa.RecordBatch]
    progress_us: int
    schema: pa.Schema
    start: int  # first offset that the queue kept when this answer began
    end: int  # next offset of the queue when this answer began
    note: str  # note of the ack that moved `start`

    @property
    def count(self) -> int:
        return self.next - self.first

    def batch(self) -> pa.RecordBatch:
        """Returns all tuples as one batch."""
        return join(self.batches) if self.batches else pa.RecordBatch.from_pylist([], schema=self.schema)


class Link:
    """Client of one server."""

    def __init__(self, address: str, security: Security | None = None, patience: Patience | None = None) -> None:
        self.connection = Connection(address, security, patience)
        self.received = TrafficCounter()
        self._stopped = threading.Event()
        self._streams: set[Any] = set()  # Flight readers in use, to cancel at close

    def streams(self) -> dict[str, Any]:
        """Returns the names of the streams at the server, and its counters."""
        return self.connection.call("streams")

    def about(self) -> dict[str, Any]:
        """Returns what the server's owner reports about itself."""
        return self.connection.call("about")

    def status(self, stream: str) -> dict[str, Any]:
        """Returns positions, lags and sizes of a queue."""
        return self.connection.call("status", stream=stream)

    def open_reader(self, stream: str, name: str, epoch: int | None = None, at: int | None = None) -> dict[str, Any]:
        """Like `Queue.open_reader`."""
        return self.connection.call("open_reader", stream=stream, name=name, epoch=epoch, at=at)

    def ack(self, stream: str, reader: str, offset: int, epoch: int | None = None, note: str = "") -> int:
        """Acknowledges all offsets below `offset`. Returns the first offset still kept."""
        return int(
            self.connection.call("ack", stream=stream, reader=reader, offset=offset, epoch=epoch, note=note)["start"]
        )

    def require(self, stream: str, readers: Sequence[str]) -> int:
        """Like `Queue.require`."""
        return int(self.connection.call("require", stream=stream, readers=list(readers))["start"])

    def trim(self, stream: str, offset: int) -> int:
        """Like `Queue.trim`."""
        return int(self.connection.call("trim", stream=stream, offset=offset)["start"])

    def open_producer(
        self, stream: str, name: str, epoch: int | None = None, counts: str = "tuples", at: int | None = None
    ) -> dict[str, Any]:
        """Like `Queue.open_producer`. With `epoch` None each try takes a new epoch; a lost answer only costs a
        number.
        """
        return self.connection.call("open_producer", stream=stream, name=name, epoch=epoch, counts=counts, at=at)

    def progress(self, stream: str, progress_us: int, producer: str, epoch: int | None = None) -> dict[str, Any]:
        """Like `Queue.progress`."""
        return self.connection.call("progress", stream=stream, producer=producer, progress_us=progress_us, epoch=epoch)

    def skip(self, stream: str, offset: int, producer: str, epoch: int | None = None) -> dict[str, Any]:
        """Like `Queue.skip`."""
        return self.connection.call("skip", stream=stream, producer=producer, offset=offset, epoch=epoch)

    def read(self, stream: str, offset: int, wait_s: float = 0.0, **how: Any) -> Received:
        """Reads once, like `Queue.read`. `how` takes the other fields of `protocol.READ` (reader, max_tuples, compress,
        ...).
        """

        def once(client: Any) -> Received:
            ticket = request(stream=stream, offset=offset, wait_s=wait_s, **how)
            return _joined(list(self._answers(client, ticket, offset, wait_s + _GRACE_S)))

        return self.connection.attempt(once)

    def follow(self, stream: str, offset: int, each_s: float = 20.0, **how: Any) -> Iterator[Received]:
        """Yields tuples and watermarks as they come, until the link is closed or the server refuses. The iterator
        blocks.

        A connection that is silent for `each_s` and some seconds counts as lost.
        """
        known: int | None = how.pop("known_progress_us", None)
        trouble_since: float | None = None
        while not self._stopped.is_set():
            ticket = request(stream=stream, offset=offset, follow_s=each_s, known_progress_us=known, **how)
            client = self.connection.attempt(lambda c: c)
            try:
                for got in self._answers(client, ticket, offset, each_s + _GRACE_S):
                    trouble_since = None
                    news = got.count or known is None or got.progress_us > known
                    offset, known = got.next, got.progress_us
                    if news:
                        yield got
            except (fl.FlightError, pa.ArrowException, OSError) as error:
                if self._stopped.is_set():
                    return
                self.connection.check(error)
                self.connection.drop(client)
                trouble_since = trouble_since or time.monotonic()
                if time.monotonic() - trouble_since > self.connection.patience.patience_s:
                    raise LinkDown(
                        f"stream '{stream}' at {self.connection.address}: every answer breaks off before its end"
                    ) from error
                if self.connection.patience.patience_s > 0:  # otherwise one more try, at once
                    self._stopped.wait(self.connection.patience.first_s)

    def _answers(self, client: Any, ticket: bytes, offset: int, timeout_s: float) -> Iterator[Received]:
        """Makes one DoGet call and decodes its records one by one."""
        reader = client.do_get(fl.Ticket(ticket), self.connection.options(timeout_s))
        self._streams.add(reader)
        if self._stopped.is_set():  # stopped in the meantime
            reader.cancel()
        try:
            schema: pa.Schema | None = None
            state: dict[str, Any] = {}
            while True:
                try:
                    record, payload = from_message(reader.read_chunk().app_metadata)
                except StopIteration:
                    return
                if record.kind == STATE:
                    state, schema, offset = *state_of(payload.to_pybytes()), record.first
                    continue
                if schema is None or record.first != offset:
                    raise BadRequest(f"a block at offset {record.first}; {offset} was expected")
                batches = [decode(payload, record.codec, schema, record.count)] if record.count else []
                if record.count:
                    self.received.add(record.count, record.length, record.length)
                offset = record.end
                yield Received(
                    record.first,
                    offset,
                    batches,
                    record.progress_us,
                    schema,
                    state["start"],
                    state["end"],
                    state["note"],
                )
        finally:
            self._streams.discard(reader)
            reader.cancel()

    def wire(self) -> WireBytes:
        """Returns the bytes that TCP carried so far."""
        return self.connection.wire()

    def stop(self) -> None:
        """Ends `follow` in another thread; that thread closes the link. Flight must not be closed while a call is under
        way.
        """
        self._stopped.set()
        for reader in list(self._streams):
            reader.cancel()

    def close(self) -> None:
        self.stop()
        self.connection.close()

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _joined(parts: list[Received]) -> Received:
    if not parts:
        raise LinkError("the answer is empty: the server is closing, or runs another version of Kigen")
    first, last = parts[0], parts[-1]
    batches = [b for p in parts for b in p.batches]
    return Received(first.first, last.next, batches, last.progress_us, first.schema, first.start, first.end, first.note)
