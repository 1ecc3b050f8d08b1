"""A named stream's queue: append blocks, read by offset, acknowledge, trim; bounded, with back-pressure; durable if
asked.

Every tuple has an offset. Units (one or more blocks) are appended whole or not at all, once only (producer, epoch,
sequence number), and are visible when they are as durable as `fsync` says. What lies below the least ack of the readers
required is trimmed. The queue carries its producers' progress: up to which event time nothing more will come.

Invariant: offsets [start, end) can be read, and give the same tuples each time; `start`, `end` and progress never fall.
Threads: every method may be called from any; one lock, not held while blocks are encoded, decoded, or read from files.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kigen.queue.errors import OffsetAhead, OffsetTrimmed, TrimNoteMissing
from kigen.queue.payload import Encoded, codec_number, encode_all, require_schema, without
from kigen.queue.pieces import ReadResult, select
from kigen.queue.producers_and_readers import Producer, Reader
from kigen.queue.queue_base import QueueBase
from kigen.queue.record import ENDED, NO_PROGRESS, TUPLES, Record

FOREVER = float("inf")
MAIN = "main"  # the producer of a queue that has one


@dataclass(frozen=True)
class Appended:
    first: int  # offset of the first tuple that was added
    end: int  # the next offset
    old: int  # tuples that were here already
    next: int  # the producer's next sequence number
    start: int  # the first offset kept


class Queue(QueueBase):
    # producing

    def open_producer(
        self, name: str = MAIN, epoch: int | None = None, counts: str = "tuples", at: int | None = None
    ) -> Producer:
        """Opens with the next epoch, or the one given, and fences all lower ones. `next` of the answer: where to go
        on."""
        with self._open():
            producer = self._parties.open_producer(name, epoch, counts, at)
            self._store.write_state(self._sync_each)
            self._changed.notify_all()  # whoever waits for room may be fenced now
            return Producer(**vars(producer))

    def append(
        self,
        batches: pa.RecordBatch | Sequence[pa.RecordBatch],
        sequence: int | None = None,
        *,
        producer: str = MAIN,
        epoch: int | None = None,
        progress_us: int | None = None,
        wait_s: float = FOREVER,
    ) -> Appended:
        """One unit. `sequence` None: the next. Full: waits up to `wait_s` for room, then raises QueueFull."""
        unit = [batches] if isinstance(batches, pa.RecordBatch) else list(batches)
        codec = codec_number(self.settings.compress)
        for batch in unit:
            require_schema(batch, self.schema, self.name)
        encoded = [block for batch in unit for block in encode_all(batch, codec)]
        if producer == MAIN and epoch is None:
            self._open_main()
        return self.append_encoded(
            encoded, sequence, producer=producer, epoch=epoch, progress_us=progress_us, wait_s=wait_s
        )

    def append_encoded(
        self,
        unit: Sequence[Encoded],
        sequence: int | None,
        *,
        producer: str,
        epoch: int | None,
        progress_us: int | None = None,
        wait_s: float = FOREVER,
    ) -> Appended:
        deadline = time.monotonic() + wait_s
        tuples, size = sum(e.count for e in unit), sum(e.data.size for e in unit)
        with self._open():
            while True:  # the lock is given up while waiting: look again at everything
                who = self._parties.producer(producer, epoch)
                at = who.next if sequence is None else sequence
                old = self._parties.old(who, at, tuples)
                if old == tuples or self._has_room(size, tuples - old):
                    break
                self._wait_for_room(deadline)
            if old == tuples:
                self._note_only(who, at, progress_us)
            else:
                self._add(without(unit, old, self.schema), who, at + old, progress_us)
            return Appended(self._parties.end - (tuples - old), self._parties.end, old, who.next, self._parties.start)

    def progress(self, progress_us: int, producer: str = MAIN, epoch: int | None = None) -> None:
        """Promises that no tuple older than this will be appended. ENDED: none at all."""
        if producer == MAIN and epoch is None:
            self._open_main()
        with self._open():
            who = self._parties.producer(producer, epoch)
            self._note_only(who, None, progress_us)

    def skip(self, offset: int, producer: str = MAIN, epoch: int | None = None) -> None:
        """Nothing below `offset` is needed from here, and nothing below it will come: the next tuple has that offset at
        least. Whoever skips what was let go is refused until an ack says what stands for it."""
        with self._open():
            who = self._parties.producer(producer, epoch)
            self._trimmed(self._parties.skip(who, offset), sync=self._sync_each)

    # reading

    def open_reader(self, name: str, epoch: int | None = None, at: int | None = None) -> Reader:
        with self._open():
            reader = self._parties.open_reader(name, epoch, at)
            self._trimmed(self._parties.trim(), sync=self._sync_each)
            return Reader(**vars(reader))

    def read(
        self,
        offset: int,
        max_tuples: int = 1 << 20,
        max_bytes: int = 1 << 26,
        *,
        min_tuples: int = 1,
        wait_s: float = 0.0,
        known_progress_us: int | None = None,
        skip_trimmed: bool = False,
        may_be_ahead: bool = False,
    ) -> ReadResult:
        """Tuples from `offset` on, at most so many. Waits up to `wait_s` until there are `min_tuples`, or more progress
        than is known; gives whole batches of so many, unless no more will come. `skip_trimmed`: begin at what is still
        kept (TrimNoteMissing, if it is not known here what stands for the rest). `may_be_ahead`: wait beyond the end, too."""
        deadline = time.monotonic() + wait_s
        with self._open():
            while True:
                first = self._readable(offset, skip_trimmed, may_be_ahead)
                there = self._parties.end - first
                last = self._parties.progress_us == ENDED
                ready = there >= max(min_tuples, 1) or (there > 0 and last)
                whole = there if last else there // max(min_tuples, 1) * max(min_tuples, 1)
                reading = self._select(first, min(max_tuples, whole) if ready else 0, max_bytes)
                news = known_progress_us is not None and reading.progress_us > known_progress_us
                left = deadline - time.monotonic()
                if ready or news or left <= 0:
                    return reading
                self._wait(left)

    def ack(self, reader: str, offset: int, epoch: int | None = None, note: str = "") -> int:
        """All below `offset` is done with. Gives the first offset still kept."""
        with self._open():
            if self._parties.ack(reader, offset, epoch, note):
                self._trimmed(self._parties.trim(), sync=False)
            return self._parties.start

    def require(self, readers: Sequence[str]) -> int:
        """Keep from now on what any of these readers has not acknowledged. None: keep all."""
        with self._open():
            self._parties.required = sorted(set(readers))
            self._trimmed(self._parties.trim(), sync=self._sync_each)
            return self._parties.start

    def trim(self, offset: int) -> int:
        """Drops what lies below `offset`, acknowledged or not."""
        with self._open():
            self._trimmed(self._parties.trim_to(offset), sync=self._sync_each)
            return self._parties.start

    def status(self) -> dict[str, Any]:
        with self._changed:
            parties, store = self._parties, self._store
            lags = {name: max(0, parties.end - r.ack) for name, r in parties.readers.items()}
            return {
                "stream": self.name,
                **parties.to_json(),
                "progress_us": parties.progress_us,
                "lag": lags,
                "kept_tuples": parties.end - parties.start,
                "kept_bytes": store.kept_bytes,
                "memory_bytes": store.memory_used,
                "disk_bytes": store.disk_bytes,
                "durable": self.settings.durable,
            }

    # inside

    def _open_main(self) -> None:
        """A queue with one producer in its own process needs no ceremony."""
        with self._open():
            if MAIN not in self._parties.producers:
                self.open_producer(MAIN)

    def _add(self, unit: Sequence[Encoded], who: Producer, sequence: int, progress_us: int | None) -> None:
        records: list[tuple[Record, Encoded]] = []
        end = self._parties.end
        for place, e in enumerate(unit):
            last = place == len(unit) - 1
            promised = max(who.progress_us, progress_us if last and progress_us is not None else NO_PROGRESS)
            records.append(
                (
                    Record(
                        TUPLES,
                        e.data.size,
                        e.crc,
                        not last,
                        e.codec,
                        end,
                        e.count,
                        who.number,
                        who.epoch,
                        sequence,
                        promised,
                    ),
                    e,
                )
            )
            end += e.count
            sequence += e.count if who.counts == "tuples" else 0
        before = self._parties.progress_us
        after = [before] * (len(unit) - 1) + [self._parties.progress_if(who, records[-1][0].progress_us)]
        self._store.append(records, after, self._sync_each)
        for record, _ in records:
            self._parties.appended(record)
        self._unsynced = True
        if self._parties.trim():  # an ack was ahead
            self._store.trim(self._parties.start)
        self._changed.notify_all()

    def _note_only(self, who: Producer, sequence: int | None, progress_us: int | None) -> None:
        """A unit without new tuples: maybe a number, maybe progress."""
        number = sequence + 1 if who.counts == "batches" and sequence is not None else who.next
        promised = max(who.progress_us, NO_PROGRESS if progress_us is None else progress_us)
        if number <= who.next and promised == who.progress_us:
            return
        who.next, who.progress_us = max(number, who.next), promised
        self._store.progressed(self._parties.progress_us)
        self._store.write_state(
            self._sync_each and promised == ENDED
        )  # any other promise is made again after a restart
        self._changed.notify_all()

    def _readable(self, offset: int, skip_trimmed: bool, may_be_ahead: bool) -> int:
        start, end = self._parties.start, self._parties.end
        if offset < start and not skip_trimmed:
            data = {"start": start, "given": offset}
            raise OffsetTrimmed(f"stream '{self.name}': offset {offset} is no longer kept; {start} is the first", data)
        if offset > end and not may_be_ahead:
            data = {"end": end, "given": offset}
            raise OffsetAhead(
                f"stream '{self.name}': offset {offset} lies beyond the end, {end}: the queue is not the one that "
                "was read",
                data,
            )
        begin = self._parties.beginning(offset)
        if begin is None:
            data = {"start": start, "given": offset}
            raise TrimNoteMissing(
                f"stream '{self.name}': what lay between {offset} and {start} was let go, and nobody has said what "
                "stands for it",
                data,
            )
        return begin

    def _select(self, first: int, max_tuples: int, max_bytes: int) -> ReadResult:
        store, parties = self._store, self._parties
        pieces, at = select(store, first, max_tuples, max_bytes)
        return ReadResult(
            self.schema,
            first,
            at,
            pieces,
            store.progress_at(store.find(at)),
            parties.start,
            parties.end,
            parties.note or "",
        )
