"""Who produces into a queue and who reads from it: epochs, sequence numbers, promises of progress, acknowledgements.
Pure.

A **producer** numbers what it appends: by tuples (`counts = "tuples"`: a replay may cut its blocks anew) or by units
(`"batches"`: a unit is whole or absent, numbers may leave gaps; Spark's batch ids). What was appended before is
recognised by number and not added again. Whoever opens with a higher **epoch** fences all lower ones. A **reader**
acknowledges offsets; all below is done. Acks may run ahead of the end: a secondary's queue learns what downstream
already has before it computed it.

A reader's **note** stands for what lies below its ack; whoever skips that is told the note. Invariant: numbers, epochs,
acks and progress never fall; `note` belongs to `start`, or is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kigen.queue.errors import BadRequest, Fenced, SequenceGap
from kigen.queue.record import NO_PROGRESS, Record

COUNTS = ("tuples", "batches")
MOST_CLIENTS = 256  # producers, and readers, of one queue: who opens more is no node


@dataclass
class Producer:
    number: int  # stands in records
    counts: str
    epoch: int = 0
    next: int = 0  # the first sequence number not appended yet
    progress_us: int = NO_PROGRESS


@dataclass
class Reader:
    ack: int
    epoch: int = 0
    note: str = ""  # of the last ack; for the reader's own use


@dataclass
class ProducersAndReaders:
    producers: dict[str, Producer] = field(default_factory=dict)
    readers: dict[str, Reader] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)  # readers whose acks decide what is kept
    start: int = 0  # the first offset kept
    end: int = 0  # the next offset
    note: str | None = (
        ""  # of the ack that `start` stands at; None: it stands where no ack did, of which a note is known
    )

    def open_producer(self, name: str, epoch: int | None, counts: str, at: int | None) -> Producer:
        if counts not in COUNTS:
            raise BadRequest(f"a producer counts '{counts}': one of {', '.join(COUNTS)} is required")
        known = self.producers.get(name)
        if known is None:
            self._has_room("producers", self.producers)
            first = at if at is not None else (self.end if counts == "tuples" and not self.producers else 0)
            known = self.producers[name] = Producer(len(self.producers), counts, 0, first)
        elif known.counts != counts:
            raise BadRequest(f"producer '{name}' counts {known.counts} here, not {counts}: use another name")
        if epoch is None:
            epoch = known.epoch + 1
        self._not_fenced(f"producer '{name}'", known.epoch, epoch)
        known.epoch = epoch
        return known

    def producer(self, name: str, epoch: int | None) -> Producer:
        """The producer, if `epoch` is the highest."""
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
        """How many of the tuples from this sequence number on are here already (all of them: a replay)."""
        if producer.counts == "batches":
            return tuples if sequence < producer.next else 0
        if sequence > producer.next:
            data = {"expected": producer.next, "given": sequence}
            raise SequenceGap(
                f"sequence number {producer.next} required; got {sequence}: what lies between was not appended", data
            )
        return min(producer.next - sequence, tuples)

    def appended(self, record: Record) -> None:
        """Brings everything up to a record that was written."""
        producer = self._by_number(record.producer)
        producer.epoch = record.epoch
        producer.next = record.sequence + (1 if producer.counts == "batches" else record.count)
        producer.progress_us = max(producer.progress_us, record.progress_us)
        self.end = record.end

    @property
    def progress_us(self) -> int:
        """Up to which event time every producer has given all."""
        return min((p.progress_us for p in self.producers.values()), default=NO_PROGRESS)

    def progress_if(self, producer: Producer, progress_us: int) -> int:
        """The progress of all if this producer promised so much."""
        return min([progress_us, *(p.progress_us for p in self.producers.values() if p is not producer)])

    def open_reader(self, name: str, epoch: int | None, at: int | None) -> Reader:
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
        """Whether this is news."""
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
        """Moves `start` to the least ack of those required; whether it moved."""
        acks = [
            (self.readers[n].ack, self.readers[n].note) if n in self.readers else (self.start, None)
            for n in self.required
        ]
        if not acks:
            return False
        least, note = min(acks, key=lambda ack: ack[0])
        return self.trim_to(least, note)

    def trim_to(self, offset: int, note: str | None = "") -> bool:
        """Whether `start` moved, or its note is known now. The note of an ack ahead of the end belongs to its own
        place, not to the end."""
        if offset > self.end:
            offset, note = self.end, None
        if offset < self.start or (offset == self.start and (note is None or self.note is not None)):
            return False
        self.start, self.note = offset, note
        return True

    def skip(self, producer: Producer, offset: int) -> bool:
        """Nothing below `offset` is needed, and nothing below it will come; whether `start` moved."""
        ahead = max(0, offset - self.end)
        producer.next += ahead if producer.counts == "tuples" else 0
        self.end += ahead
        moved = self.trim_to(offset, None)
        return self.trim() or moved

    def beginning(self, offset: int) -> int | None:
        """Where whoever skips what was let go begins; None: what stands for it is not known."""
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
            raise BadRequest(f"a queue has at most {MOST_CLIENTS} {what}: those there are keep their places")

    @staticmethod
    def _not_fenced(who: str, highest: int, given: int) -> None:
        if given < highest:
            data = {"epoch": highest, "given": given}
            raise Fenced(f"{who} of epoch {given} is fenced: epoch {highest} took over; stop, or open anew", data)
