"""What a server does with a queue for a call, apart from Flight: give blocks, take units, act. Messages are records as
bytes.

Invariant: a call that waits looks up every half second (`gone` raises when nobody waits for it any more): none outlives
its client by much. Nothing is stored that whoever reads it could not decode: blocks are decoded and validated here
first, and thrown away again.
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

CheckCaller = Callable[[], None]
Fields = dict[str, Any]
_LOOK_S = 0.5
_MOST_BLOCKS, _MOST_BYTES = 65_536, 1 << 30  # of one unit
_LAST_NUMBER = 2**62


def give(queue: Queue, how: Fields, sent: TrafficCounter, gone: CheckCaller) -> Iterator[bytes]:
    """A STATE first (and again when tuples were skipped), then blocks; a block of no tuples says where the reader
    stands, and progress."""
    codec = codec_number(how["compress"])
    follow = how["follow_s"] > 0
    until = time.monotonic() + (how["follow_s"] if follow else how["wait_s"])
    offset, known = how["offset"], how["known_progress_us"]
    if follow and known is None:
        known = NO_PROGRESS
    first_answer = True
    while True:
        reading = _read(queue, how, offset, known, until, gone)
        if first_answer or reading.first > offset:
            yield _state(queue, reading)
        for record, encoded in reading.packed(codec):
            sent.add(record.count, encoded.data.size, encoded.plain)
            yield message(record, encoded.data)
        if not reading.pieces:
            yield message(Record(TUPLES, 0, 0, first=reading.next, progress_us=reading.progress_us), b"")
        first_answer, offset, known = False, reading.next, reading.progress_us
        if not follow or time.monotonic() >= until:
            return


def _read(queue: Queue, how: Fields, offset: int, known: int | None, until: float, gone: CheckCaller) -> ReadResult:
    while True:
        left = max(0.0, until - time.monotonic())
        reading = queue.read(
            offset,
            how["max_tuples"],
            how["max_bytes"],
            min_tuples=how["min_tuples"],
            wait_s=min(left, _LOOK_S),
            known_progress_us=known,
            skip_trimmed=how["skip_trimmed"],
            may_be_ahead=how["may_be_ahead"],
        )
        if reading.pieces or left <= _LOOK_S or (known is not None and reading.progress_us > known):
            return reading
        gone()


def take(queue: Queue, how: Fields, messages: Iterable[Any], taken: TrafficCounter, gone: CheckCaller) -> Iterator[Ack]:
    """Appends unit after unit; an ack for each, when it is as durable as the queue promises."""
    unit: list[Encoded] = []
    first: Record | None = None
    size = 0
    for data in messages:
        record, payload = from_message(data)
        first, size = first or record, size + record.length
        _require(queue, record, payload)
        if len(unit) >= _MOST_BLOCKS or size > _MOST_BYTES:
            raise BadRequest(
                f"a unit of more than {_MOST_BLOCKS:,} blocks or {_MOST_BYTES:,} bytes: send it in several"
            )
        if record.count:
            unit.append(Encoded(payload, record.codec, record.count, record.length, record.crc))
            taken.add(record.count, record.length, record.length)
        if record.more:
            continue
        yield _append(queue, how, unit, first.sequence, record.progress_us, gone)
        unit, first, size = [], None, 0


def _require(queue: Queue, record: Record, payload: Any) -> None:
    """Raises BadRequest unless the block can be read by whoever reads the stream."""
    if record.kind != TUPLES or not 0 <= record.sequence < _LAST_NUMBER:
        raise BadRequest("a block with a sequence number is required")
    if record.count:
        decode(payload, record.codec, queue.schema, record.count)
    elif record.length:
        raise BadRequest("a block of no rows holds bytes all the same")


def _append(queue: Queue, how: Fields, unit: list[Encoded], sequence: int, progress_us: int, gone: CheckCaller) -> Ack:
    until = time.monotonic() + how["wait_s"]
    promised = None if progress_us == NO_PROGRESS else progress_us
    while True:
        left = max(0.0, until - time.monotonic())
        try:
            done = queue.append_encoded(
                unit,
                sequence,
                producer=how["producer"],
                epoch=how["epoch"],
                progress_us=promised,
                wait_s=min(left, _LOOK_S),
            )
        except QueueFull:
            if left <= _LOOK_S:
                raise
            gone()
        else:
            return Ack(done.next, done.end, done.start)


def act(queue: Queue, action: str, how: Fields) -> Fields:
    """An action on one queue; `how` is checked and complete."""
    given = {name: value for name, value in how.items() if name != "stream"}
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
            raise BadRequest(f"names of readers are required, at most {MOST_CLIENTS}")
        return {"start": queue.require(given["readers"])}
    if action == "trim":
        return {"start": queue.trim(given["offset"])}
    if action == "progress":
        queue.progress(**given)
    elif action == "skip":
        queue.skip(**given)
    return queue.status()


def message(record: Record, payload: Any) -> bytes:
    return b"".join((record.pack(), payload))


def _state(queue: Queue, reading: ReadResult) -> bytes:
    told = {"schema": schema_text(queue.schema), "start": reading.start, "end": reading.end, "note": reading.note}
    payload = json.dumps(told).encode()
    return message(Record(STATE, len(payload), checksum(payload), first=reading.first), payload)
