"""Bookkeeping of a queue's producers and readers: epochs, sequence numbers, watermarks, acks. Pure.

A **producer** numbers what it appends. It counts tuples (`counts = "tuples"`: a replay may split its blocks
differently) or units (`"batches"`: a unit is complete or absent, and numbers may have gaps, as Spark's batch ids do).
Tuples that were appended before are recognised by their number and not added again. A client that opens with a higher
**epoch** fences all lower ones. A **reader** acknowledges offsets: it needs nothing below them. Acks may be ahead of
the end: the queue of a follower learns what its readers already have before it has computed it.

A reader's **note** describes what lies below its ack. A reader that skips that range receives the note. Invariant:
sequence numbers, epochs, acks and watermarks never decrease; `note` belongs to `start`, or is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kigen.queue.errors import BadRequest, Fenced, SequenceGap
from kigen.queue.record import NO_PROGRESS, Record

COUNTS = ("tuples", "batches")
MOST_CLIENTS = 256  # producers, and readers, per queue; no node opens more


@dataclass
class Producer:
    """Position of one producer. The fields are stored as JSON."""

    number: int  # its number in records
    counts: str
    epoch: int = 0
    next: int = 0  # the first sequence number not appended yet
    progress_us: int = NO_PROGRESS  # its watermark


@dataclass
class Reader:
    """Position of one reader. The fields are stored as JSON."""

    ack: int
    epoch: int = 0
    note: str = ""  # note of the last ack; its meaning is up to the reader


@dataclass
class ProducersAndReaders:
    """All producers and readers of one queue, and the range of offsets that it keeps. The fields are stored as JSON."""

    producers: dict[str, Producer] = field(default_factory=dict)
    readers: dict[str, Reader] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)  # readers whose acks decide what is trimmed
    start: int = 0  # the first offset kept
    end: int = 0  # the next offset
    note: str | None = ""  # note of the ack at `start`; None: no ack with a known note is at `start`

    def open_producer(self, name: str, epoch: int | None, counts: str, at: int | None) -> Producer:
        """Opens a producer with the given or the next epoch. `at`: first sequence number of a new producer."""
        if counts not in COUNTS:
            raise BadRequest(f"counts = '{counts}': one of {', '.join(COUNTS)} is required")
        known = self.producers.get(name)
        if known is None:
            self._has_room("producers", self.producers)
            first = at if at is not None else (self.end if counts == "tuples" and not self.producers else 0)
            known = self.producers[name] = Producer(len(self.producers), counts, 0, first)
        elif known.counts != counts:
            raise BadRequest(f"producer '{name}' counts {known.counts} here, not {counts}: choose another name")
        if epoch is None:
            epoch = known.epoch + 1
        self._not_fenced(f"producer '{name}'", known.epoch, epoch)
        known.epoch = epoch
        return known

    def producer(self, name: str, epoch: int | None) -> Producer:
        """Returns an open producer. Raises unless `epoch` is the highest."""
        known = self.producers.get(name)
        if known is None:
            raise BadRequest(f"producer '{name}' is not open: open it first")
        if epoch is not None:
            self._not_fenced(f"producer '{name}'", known.epoch, epoch)
            if epoch > known.epoch:
                raise BadRequest(f"producer '{name}' has epoch {known.epoch} here; {epoch} was never opened")
        return known

    @staticmethod
    def old(producer: Producer, sequence: int, tuples: int) -> int:
        """Returns how many of the tuples from this sequence number on the queue already has (all of them in a
        replay).
        """
        if producer.counts == "batches":
            return tuples if sequence < producer.next else 0
        if sequence > producer.next:
            data = {"expected": producer.next, "given": sequence}
            raise SequenceGap(
                f"sequence number {producer.next} is required; got {sequence}: the tuples in between were not appended",
                data,
            )
        return min(producer.next - sequence, tuples)

    def appended(self, record: Record) -> None:
        """Updates the bookkeeping with a record that was written."""
        producer = self._by_number(record.producer)
        producer.epoch = record.epoch
        producer.next = record.sequence + (1 if producer.counts == "batches" else record.count)
        producer.progress_us = max(producer.progress_us, record.progress_us)
        self.end = record.end

    @property
    def progress_us(self) -> int:
        """Watermark of the queue: the least of its producers."""
        return min((p.progress_us for p in self.producers.values()), default=NO_PROGRESS)

    def progress_if(self, producer: Producer, progress_us: int) -> int:
        """Returns the watermark of the queue if this producer's watermark were `progress_us`."""
        return min([progress_us, *(p.progress_us for p in self.producers.values() if p is not producer)])

    def open_reader(self, name: str, epoch: int | None, at: int | None) -> Reader:
        """Opens a reader. `at` raises its ack, if it is higher."""
        known = self.readers.get(name)
        if known is None:
            self._has_room("readers", self.readers)
            known = self.readers[name] = Reader(self.start if at is None else at)
        if epoch is not None:
            self._not_fenced(f"reader '{name}'", known.epoch, epoch)
            known.epoch = epoch
        if at is not None:
            known.ack = max(known.ack, at)
        return known

    def ack(self, name: str, offset: int, epoch: int | None, note: str) -> bool:
        """Records an ack. Returns whether it changed anything."""
        known = self.readers.get(name)
        if known is None:
            raise BadRequest(f"reader '{name}' is not open: open it first")
        if epoch is not None:
            self._not_fenced(f"reader '{name}'", known.epoch, epoch)
        if offset < known.ack or (offset == known.ack and note == known.note):
            return False
        known.ack, known.note = offset, note
        return True

    def trim(self) -> bool:
        """Moves `start` to the least ack of the required readers. Returns whether it moved."""
        acks = [
            (self.readers[n].ack, self.readers[n].note) if n in self.readers else (self.start, None)
            for n in self.required
        ]
        if not acks:
            return False
        least, note = min(acks, key=lambda ack: ack[0])
        return self.trim_to(least, note)

    def trim_to(self, offset: int, note: str | None = "") -> bool:
        """Moves `start` to an offset. Returns whether it moved, or its note became known.

        The note of an ack ahead of the end belongs to the offset of that ack, not to the end.
        """
        if offset > self.end:
            offset, note = self.end, None
        if offset < self.start or (offset == self.start and (note is None or self.note is not None)):
            return False
        self.start, self.note = offset, note
        return True

    def skip(self, producer: Producer, offset: int) -> bool:
        """Records that nothing below `offset` is needed and nothing below it will come. Returns whether `start`
        moved.
        """
        ahead = max(0, offset - self.end)
        producer.next += ahead if producer.counts == "tuples" else 0
        self.end += ahead
        moved = self.trim_to(offset, None)
        return self.trim() or moved

    def beginning(self, offset: int) -> int | None:
        """Returns where a reader that skips trimmed tuples begins, or None if the note for them is not known."""
        return offset if offset >= self.start else None if self.note is None else self.start

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: dict[str, Any]) -> ProducersAndReaders:
        return ProducersAndReaders(
            {name: Producer(**p) for name, p in value["producers"].items()},
            {name: Reader(**r) for name, r in value["readers"].items()},
            list(value["required"]),
            value["start"],
            value["end"],
            value["note"],
        )

    def _by_number(self, number: int) -> Producer:
        return next(p for p in self.producers.values() if p.number == number)

    @staticmethod
    def _has_room(what: str, known: Mapping[str, object]) -> None:
        if len(known) >= MOST_CLIENTS:
            raise BadRequest(f"a queue has at most {MOST_CLIENTS} {what}: no more can be opened")

    @staticmethod
    def _not_fenced(who: str, highest: int, given: int) -> None:
        if given < highest:
            data = {"epoch": highest, "given": given}
            raise Fenced(f"{who} of epoch {given} is fenced: epoch {highest} took over; stop, or open again", data)
