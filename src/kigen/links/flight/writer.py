"""Appends over a link. Units are sent without waiting for each other, kept until acknowledged, and sent again after a
failure.

Invariant: units enter the queue in order, each once (by epoch and sequence number). A unit is discarded here only when
its ack says that the queue has it. `flush` returns when all are acknowledged. Back-pressure: `append` waits while
`window_bytes` are unacknowledged; the server waits up to `wait_s` while its queue is full, then QueueFull is raised
here. Nothing is discarded then, and `flush` tries again. Threads: one caller, and one thread that receives acks. Cost:
one copy of a block into its message.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from kigen.links.errors import LinkDown
from kigen.links.flight.append_unit import AppendUnit, encode_unit
from kigen.links.flight.client import Link
from kigen.links.flight.counters import TrafficCounter
from kigen.links.flight.protocol import CLOSING, Ack, request
from kigen.links.flight.server import EMPTY_SCHEMA
from kigen.queue.errors import QueueError, SequenceGap
from kigen.queue.payload import codec_number
from kigen.queue.queue_appends import MAIN

_DAY_S = 86_400.0  # an append call has no natural end, but gRPC requires a timeout


class LinkWriter:
    """Producer of one stream over a link."""

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
        self._writing = threading.Lock()  # Flight's writers allow one thread at a time
        self._pending: deque[AppendUnit] = deque()
        self._pending_bytes = 0
        self._turn = 0  # number of the append call, to recognise late acks of an earlier one
        self._call = ""  # name of the append call at the server
        self._client: Any = None
        self._writer: Any = None
        self._ack_thread: threading.Thread | None = None
        self._failure: Exception | None = None

    def append(
        self,
        batches: pa.RecordBatch | Sequence[pa.RecordBatch],
        sequence: int | None = None,
        progress_us: int | None = None,
    ) -> int:
        """Sends one unit and returns the sequence number after it. The ack comes later.

        `sequence` None takes the next number.
        """
        at = self.next if sequence is None else sequence
        given = [batches] if isinstance(batches, pa.RecordBatch) else list(batches)
        unit = encode_unit(given, at, self.epoch, self._counts, self._codec, progress_us)
        for tuples, size, plain in unit.blocks:
            self.sent.add(tuples, size, plain)
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
        """Raises the watermark, after all units that were appended before."""
        self.append([], None, progress_us)

    def flush(self, timeout_s: float | None = None) -> Ack:
        """Waits until all units are acknowledged."""
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
        """Flushes, then ends the append call. The link stays open."""
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
        """Leaves at once, acknowledged or not. Notifies the server, which may be waiting for room for this writer."""
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

    def _wait(self, until: float | None) -> None:
        """Waits for an ack or a failure, for one second at most."""
        if self._failure is None:
            self._changed.wait(1.0 if until is None else min(1.0, max(0.0, until - time.monotonic())))

    def _send(self, unit: AppendUnit) -> None:
        """Sends a unit. If that fails, the unit stays pending and is sent again by `_heal`."""
        try:
            for data in unit.messages:
                with self._writing:
                    self._writer.write_metadata(data)
        except (fl.FlightError, pa.ArrowException, OSError) as error:
            self._join_ack_thread()  # it may know the real reason
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()

    def _heal(self) -> None:
        """Opens the append call if there is none or it broke, and sends unacknowledged units again.

        Raises what the server refused.
        """
        while self._writer is None or self._failure is not None:
            client = self._client
            failure = self._end()
            if failure is not None:
                self._link.connection.check(failure)
                self._link.connection.drop(client)
                time.sleep(self._link.connection.patience.first_s)
            self._open_stream()

    def _open_stream(self) -> None:
        """Starts an append call and its thread, and sends the units again that the queue does not have."""
        opened = self._link.open_producer(self._stream, self._producer, self.epoch, self._counts)
        with self._changed:
            while self._pending and self._pending[0].tuples and self._pending[0].after <= opened["next"]:
                self._pending_bytes -= self._pending.popleft().size
            again = list(self._pending)
            self._turn += 1
        if again and self._counts == "tuples" and again[0].sequence > opened["next"]:
            lost = {"expected": opened["next"], "given": again[0].sequence}
            raise SequenceGap(
                f"stream '{self._stream}' lost acknowledged tuples from number {opened['next']} on: it is not durable",
                lost,
            )
        self._client = self._link.connection.client()
        self._call = uuid.uuid4().hex
        command = request(
            stream=self._stream, producer=self._producer, epoch=self.epoch, wait_s=self._wait_s, call=self._call
        )
        options = self._link.connection.options(_DAY_S)
        self._writer, acks = self._client.do_put(fl.FlightDescriptor.for_command(command), EMPTY_SCHEMA, options)
        self._ack_thread = threading.Thread(
            target=self._receive_acks, args=(self._writer, acks, self._turn), name=f"acks {self._stream}", daemon=True
        )
        self._ack_thread.start()
        for unit in again:
            self._send(unit)

    def _receive_acks(self, writer: Any, acks: Any, turn: int) -> None:
        """Receives one ack per unit, in the order sent. Acks of an abandoned call are ignored."""
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

    def _join_ack_thread(self) -> None:
        if self._ack_thread is not None:
            self._ack_thread.join(timeout=5.0)

    def _end(self) -> Exception | None:
        """Ends the append call. Returns why it had failed: the reason comes with the end of the call, not with the
        acks.
        """
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
                self._join_ack_thread()
            with self._writing:
                writer.close()
        except (fl.FlightError, pa.ArrowException, OSError) as error:
            failure = error
        self._ack_thread = None
        return failure
