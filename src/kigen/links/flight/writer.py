"""Appending over a link: units are sent without waiting for each other, kept until acknowledged, and sent again after
trouble.

Invariant: units enter the queue in order, each once (by epoch and sequence number): a unit is forgotten here only when
its ack says that the queue has it. `flush` returns when all are acknowledged. Back-pressure: `append` waits while
`window_bytes` are unacknowledged; the server waits while its queue is full, up to `wait_s`, then QueueFull is raised
here, nothing is forgotten, and `flush` tries again. Threads: one caller; a thread that takes acks. Cost: one copy of a
block into its message.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from kigen.links.errors import LinkDown
from kigen.links.flight.calls import message
from kigen.links.flight.client import Link
from kigen.links.flight.counters import TrafficCounter
from kigen.links.flight.protocol import CLOSING, Ack, request
from kigen.links.flight.server import EMPTY_SCHEMA
from kigen.queue.errors import QueueError, SequenceGap
from kigen.queue.payload import codec_number, encode_all
from kigen.queue.queue_appends import MAIN
from kigen.queue.record import NO_PROGRESS, TUPLES, Record

_DAY_S = 86_400.0  # a stream of appends has no natural end; gRPC wants one


@dataclass(frozen=True)
class _Unit:
    sequence: int
    after: int  # the next sequence number once it is in the queue
    messages: list[bytes]
    size: int
    tuples: int


class LinkWriter:
    def __init__(
        self,
        link: Link,
        stream: str,
        producer: str = MAIN,
        epoch: int | None = None,
        counts: str = "tuples",
        compress: str = "none",
        window_bytes: int = 32 << 20,
        wait_s: float = 3600.0,
    ) -> None:
        self._link, self._stream, self._producer, self._counts = link, stream, producer, counts
        self._codec = codec_number(compress)
        self._window_bytes, self._wait_s = window_bytes, wait_s
        opened = link.open_producer(stream, producer, epoch, counts)
        self.epoch: int = opened["epoch"]
        self.next: int = opened["next"]  # the sequence number of the next append
        self.sent = TrafficCounter()
        self.acked = Ack(self.next, 0, 0)
        self._changed = threading.Condition()
        self._writing = threading.Lock()  # Flight's writers are for one thread at a time
        self._pending: deque[_Unit] = deque()
        self._pending_bytes = 0
        self._turn = 0  # counts streams of appends, so that a late ack of an old one is known
        self._call = ""  # names the stream of appends to the server
        self._client: Any = None
        self._writer: Any = None
        self._taker: threading.Thread | None = None
        self._failure: Exception | None = None

    def append(
        self,
        batches: pa.RecordBatch | Sequence[pa.RecordBatch],
        sequence: int | None = None,
        progress_us: int | None = None,
    ) -> int:
        """Sends one unit and gives the sequence number after it; it is acknowledged later. `sequence` None: the
        next."""
        at = self.next if sequence is None else sequence
        unit = self._unit([batches] if isinstance(batches, pa.RecordBatch) else list(batches), at, progress_us)
        while True:
            self._heal()
            with self._changed:
                if not self._pending or self._pending_bytes + unit.size <= self._window_bytes:
                    self._pending.append(unit)
                    self._pending_bytes += unit.size
                    break
                self._wait(None)
        self.next = max(self.next, unit.after)
        self._send(unit)
        return self.next

    def progress(self, progress_us: int) -> None:
        """Promises that nothing older will come, behind all that was appended."""
        self.append([], None, progress_us)

    def flush(self, timeout_s: float | None = None) -> Ack:
        """Waits until all is acknowledged."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self._changed:
                if not self._pending:
                    return self.acked
            self._heal()
            if until is not None and time.monotonic() >= until:
                raise LinkDown(
                    f"stream '{self._stream}': {len(self._pending)} units are not acknowledged after {timeout_s} s"
                )
            with self._changed:
                if self._pending:
                    self._wait(until)

    def close(self) -> None:
        """Flushes, then ends the stream. The link stays open."""
        try:
            self.flush()
        finally:
            self._end()

    def __enter__(self) -> LinkWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def abandon(self) -> None:
        """Leaves at once, acknowledged or not. The server is told, since it may be waiting for room on our behalf."""
        with self._changed:
            self._turn += 1
            writer, self._writer = self._writer, None
        if writer is not None:
            threading.Thread(target=self._leave, args=(writer,), name=f"leave {self._stream}", daemon=True).start()

    def _leave(self, writer: Any) -> None:
        with suppress(QueueError, fl.FlightError, pa.ArrowException, OSError):
            self._link.connection.call("leave", call=self._call)
        with suppress(fl.FlightError, pa.ArrowException, OSError), self._writing:
            writer.close()

    def _unit(self, batches: list[pa.RecordBatch], at: int, progress_us: int | None) -> _Unit:
        promised = NO_PROGRESS if progress_us is None else progress_us
        blocks = [block for b in batches for block in encode_all(b, self._codec)]
        messages, sequence = [], at
        for place, e in enumerate(blocks):
            more = place < len(blocks) - 1
            behind = NO_PROGRESS if more else promised
            record = Record(TUPLES, e.data.size, e.crc, more, e.codec, 0, e.count, 0, self.epoch, sequence, behind)
            messages.append(message(record, e.data))
            self.sent.add(e.count, e.data.size, e.plain)
            sequence += e.count if self._counts == "tuples" else 0
        if not blocks:
            messages.append(message(Record(TUPLES, 0, 0, sequence=at, progress_us=promised), b""))
        after = sequence if self._counts == "tuples" else at + 1
        return _Unit(at, after, messages, sum(len(m) for m in messages), sum(e.count for e in blocks))

    def _wait(self, until: float | None) -> None:
        """For an ack or a failure, a second at most."""
        if self._failure is None:
            self._changed.wait(1.0 if until is None else min(1.0, max(0.0, until - time.monotonic())))

    def _send(self, unit: _Unit) -> None:
        """If that fails, the unit is pending and is sent again when the stream is healed."""
        try:
            for data in unit.messages:
                with self._writing:
                    self._writer.write_metadata(data)
        except (fl.FlightError, pa.ArrowException, OSError) as error:
            self._join_taker()  # it knows better why
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()

    def _heal(self) -> None:
        """Opens the stream of appends if there is none or it broke, and sends again what is not acknowledged. Raises
        what was refused."""
        while self._writer is None or self._failure is not None:
            client = self._client
            failure = self._end()
            if failure is not None:
                self._link.connection.check(failure)
                self._link.connection.drop(client)
                time.sleep(self._link.connection.patience.first_s)
            self._open_stream()

    def _open_stream(self) -> None:
        opened = self._link.open_producer(self._stream, self._producer, self.epoch, self._counts)
        with self._changed:
            while self._pending and self._pending[0].tuples and self._pending[0].after <= opened["next"]:
                self._pending_bytes -= self._pending.popleft().size
            again = list(self._pending)
            self._turn += 1
        if again and self._counts == "tuples" and again[0].sequence > opened["next"]:
            lost = {"expected": opened["next"], "given": again[0].sequence}
            raise SequenceGap(
                f"stream '{self._stream}' lost what it had acknowledged, from {opened['next']} on: it is not durable",
                lost,
            )
        self._client = self._link.connection.client()
        self._call = uuid.uuid4().hex
        command = request(
            stream=self._stream, producer=self._producer, epoch=self.epoch, wait_s=self._wait_s, call=self._call
        )
        options = self._link.connection.options(_DAY_S)
        self._writer, acks = self._client.do_put(fl.FlightDescriptor.for_command(command), EMPTY_SCHEMA, options)
        self._taker = threading.Thread(
            target=self._take_acks, args=(self._writer, acks, self._turn), name=f"acks {self._stream}", daemon=True
        )
        self._taker.start()
        for unit in again:
            self._send(unit)

    def _take_acks(self, writer: Any, acks: Any, turn: int) -> None:
        """One ack a unit, in the order sent; those of a stream that was given up count no more."""
        failure: Exception = fl.FlightUnavailableError("the stream of acks ended")
        try:
            while (data := acks.read()) is not None:
                ack = Ack.unpack(data)
                if ack == CLOSING:
                    with self._writing:
                        writer.done_writing()
                    continue
                with self._changed:
                    if turn != self._turn:
                        return
                    self.acked = ack
                    self._pending_bytes -= self._pending.popleft().size
                    self._changed.notify_all()
        except (fl.FlightError, pa.ArrowException, OSError) as error:
            failure = error
        with self._changed:
            if turn == self._turn:
                self._failure = failure
                self._changed.notify_all()

    def _join_taker(self) -> None:
        if self._taker is not None:
            self._taker.join(timeout=5.0)

    def _end(self) -> Exception | None:
        """Ends the stream; gives why it had broken. The reason comes with the end of the call, not with the acks."""
        with self._changed:
            self._turn += 1
            failure, self._failure = self._failure, None
            writer, self._writer = self._writer, None
        if writer is None:
            return failure
        try:
            if failure is None:
                with self._writing:
                    writer.done_writing()
                self._join_taker()
            with self._writing:
                writer.close()
        except (fl.FlightError, pa.ArrowException, OSError) as error:
            failure = error
        self._taker = None
        return failure
