"""Work of a server's calls on a queue, without Flight: send blocks, append units, do actions. Messages are records as
bytes.

Invariant: a call that waits checks every half second whether its caller is still there (`check_caller` raises if not),
so no call outlives its client by much. Nothing is stored that a reader could not decode: blocks are decoded and
validated here first, and the result is discarded.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kigen.links.flight.counters import TrafficCounter
from kigen.links.flight.protocol import LONGEST_NAME, Ack
from kigen.queue.errors import BadRequest, QueueFull
from kigen.queue.payload import Encoded, codec_number, decode
from kigen.queue.pieces import ReadResult
from kigen.queue.producers_and_readers import MOST_CLIENTS
from kigen.queue.queue_files import schema_text
from kigen.queue.record import NO_PROGRESS, STATE, TUPLES, Record, checksum, from_message
from kigen.queue.stream_queue import Queue

CheckCaller = Callable[[], None]  # raises QueueClosed when nobody waits for the call any more
Fields = dict[str, Any]
_CHECK_S = 0.5
_MOST_BLOCKS, _MOST_BYTES = 65_536, 1 << 30  # per unit
_LAST_NUMBER = 2**62


def serve_read(queue: Queue, fields: Fields, sent: TrafficCounter, check_caller: CheckCaller) -> Iterator[bytes]:
    """Yields a STATE (again whenever tuples were skipped), then blocks.

    A block without tuples says where the reader stands and carries the watermark.
    """
    codec = codec_number(fields["compress"])
    follow = fields["follow_s"] > 0
    until = time.monotonic() + (fields["follow_s"] if follow else fields["wait_s"])
    offset, known = fields["offset"], fields["known_progress_us"]
    if follow and known is None:
        known = NO_PROGRESS
    first_answer = True
    while True:
        result = _read(queue, fields, offset, known, until, check_caller)
        if first_answer or result.first > offset:
            yield _state(queue, result)
        for record, encoded in result.packed(codec):
            sent.add(record.count, encoded.data.size, encoded.plain)
            yield message(record, encoded.data)
        if not result.pieces:
            yield message(Record(TUPLES, 0, 0, first=result.next, progress_us=result.progress_us), b"")
        first_answer, offset, known = False, result.next, result.progress_us
        if not follow or time.monotonic() >= until:
            return


def _read(
    queue: Queue, fields: Fields, offset: int, known: int | None, until: float, check_caller: CheckCaller
) -> ReadResult:
    while True:
        left = max(0.0, until - time.monotonic())
        result = queue.read(
            offset,
            fields["max_tuples"],
            fields["max_bytes"],
            min_tuples=fields["min_tuples"],
            wait_s=min(left, _CHECK_S),
            known_progress_us=known,
            skip_trimmed=fields["skip_trimmed"],
            may_be_ahead=fields["may_be_ahead"],
        )
        if result.pieces or left <= _CHECK_S or (known is not None and result.progress_us > known):
            return result
        check_caller()


def serve_append(
    queue: Queue, fields: Fields, messages: Iterable[Any], taken: TrafficCounter, check_caller: CheckCaller
) -> Iterator[Ack]:
    """Appends unit after unit. Yields one ack per unit, when the unit is as durable as the queue promises."""
    unit: list[Encoded] = []
    first: Record | None = None
    size = 0
    for data in messages:
        record, payload = from_message(data)
        first, size = first or record, size + record.length
        _require(queue, record, payload)
        if len(unit) >= _MOST_BLOCKS or size > _MOST_BYTES:
            raise BadRequest(f"the unit has more than {_MOST_BLOCKS:,} blocks or {_MOST_BYTES:,} bytes: split it")
        if record.count:
            unit.append(Encoded(payload, record.codec, record.count, record.length, record.crc))
            taken.add(record.count, record.length, record.length)
        if record.more:
            continue
        yield _append(queue, fields, unit, first.sequence, record.progress_us, check_caller)
        unit, first, size = [], None, 0


def _require(queue: Queue, record: Record, payload: Any) -> None:
    """Raises BadRequest unless readers of the stream can decode the block."""
    if record.kind != TUPLES or not 0 <= record.sequence < _LAST_NUMBER:
        raise BadRequest("a block with a sequence number is required")
    if record.count:
        decode(payload, record.codec, queue.schema, record.count)
    elif record.length:
        raise BadRequest("a block without rows must not hold bytes")


def _append(
    queue: Queue, fields: Fields, unit: list[Encoded], sequence: int, progress_us: int, check_caller: CheckCaller
) -> Ack:
    until = time.monotonic() + fields["wait_s"]
    watermark_us = None if progress_us == NO_PROGRESS else progress_us
    while True:
        left = max(0.0, until - time.monotonic())
        try:
            done = queue.append_encoded(
                unit,
                sequence,
                producer=fields["producer"],
                epoch=fields["epoch"],
                progress_us=watermark_us,
                wait_s=min(left, _CHECK_S),
            )
        except QueueFull:
            if left <= _CHECK_S:
                raise
            check_caller()
        else:
            return Ack(done.next, done.end, done.start)


def serve_action(queue: Queue, action: str, fields: Fields) -> Fields:
    """Does an action on one queue. `fields` are checked and complete."""
    given = {name: value for name, value in fields.items() if name != "stream"}
    if action in ("open_producer", "open_reader"):
        opened = queue.open_producer(**given) if action == "open_producer" else queue.open_reader(**given)
        return vars(opened)
    if action == "ack":
        return {"start": queue.ack(**given)}
    if action == "require":
        if (
            not all(isinstance(name, str) and len(name) <= LONGEST_NAME for name in given["readers"])
            or len(given["readers"]) > MOST_CLIENTS
        ):
            raise BadRequest(f"a list of at most {MOST_CLIENTS} names of readers is required")
        return {"start": queue.require(given["readers"])}
    if action == "trim":
        return {"start": queue.trim(given["offset"])}
    if action == "progress":
        queue.progress(**given)
    elif action == "skip":
        queue.skip(**given)
    return queue.status()


def message(record: Record, payload: Any) -> bytes:
    """Returns the bytes of one record."""
    return b"".join((record.pack(), payload))


def _state(queue: Queue, result: ReadResult) -> bytes:
    state = {"schema": schema_text(queue.schema), "start": result.start, "end": result.end, "note": result.note}
    payload = json.dumps(state).encode()
    return message(Record(STATE, len(payload), checksum(payload), first=result.first), payload)
