"""Appending side of a queue: producers append units, each one once and completely, and raise the watermark.

A unit is one or more blocks. The queue recognises a repeated unit by producer, epoch and sequence number. A unit
becomes visible when it is as durable as `fsync` says. Several units that are appended together share one sync. A full
queue makes its producers wait.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from kigen.queue.payload import Encoded, codec_number, encode_all, require_schema, without
from kigen.queue.producers_and_readers import Producer
from kigen.queue.queue_base import QueueBase
from kigen.queue.record import ENDED, NO_PROGRESS, TUPLES, Record

FOREVER = float("inf")
MAIN = "main"  # the producer of a queue that has one


@dataclass(frozen=True)
class Appended:
    """Answer to an append."""

    first: int  # offset of the first tuple that was added
    end: int  # the next offset
    old: int  # tuples that the queue already had
    next: int  # the producer's next sequence number
    start: int  # the first offset kept


class QueueAppends(QueueBase):
    """Producers open, append, raise the watermark and skip."""

    def open_producer(
        self, name: str = MAIN, epoch: int | None = None, counts: str = "tuples", at: int | None = None
    ) -> Producer:
        """Opens a producer with the given or the next epoch, and fences all lower epochs.

        `next` of the answer is the sequence number at which it continues.
        """
        with self._open():
            producer = self._clients.open_producer(name, epoch, counts, at)
            self._store.write_state(self._sync_each)
            self._changed.notify_all()  # a producer that waits for room may be fenced now
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
        """Appends one unit. `sequence` None takes the next number.

        If the queue is full, waits up to `wait_s` for room and then raises QueueFull.
        """
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
        """Appends one unit of encoded blocks; otherwise like `append`."""
        deadline = time.monotonic() + wait_s
        tuples, size = sum(e.count for e in unit), sum(e.data.size for e in unit)
        with self._open():
            while True:  # waiting releases the lock, so everything is checked again
                writer = self._clients.producer(producer, epoch)
                at = writer.next if sequence is None else sequence
                old = self._clients.old(writer, at, tuples)
                if old == tuples or self._has_room(size, tuples - old):
                    break
                self._wait_for_room(deadline)
            if old == tuples:
                self._note_only(writer, at, progress_us)
            else:
                self._add(without(unit, old, self.schema), writer, at + old, progress_us)
            return Appended(
                self._clients.end - (tuples - old), self._clients.end, old, writer.next, self._clients.start
            )

    def append_units(
        self,
        units: Sequence[Sequence[pa.RecordBatch]],
        sequence: int,
        *,
        producer: str,
        epoch: int,
        progress_us: int | None = None,
        wait_s: float = FOREVER,
    ) -> Appended:
        """Appends several units of a producer that counts batches, with one write and one sync.

        `sequence` is the number of the first unit; `progress_us` is the watermark after the last one. A kill may leave
        the first units without the last ones, never a part of a unit. Units that the queue has are left out, as in
        `append`. If the queue has no room for all of them, waits for it like `append`.
        """
        codec = codec_number(self.settings.compress)
        for batch in [batch for unit in units for batch in unit]:
            require_schema(batch, self.schema, self.name)
        encoded = [[block for batch in unit for block in encode_all(batch, codec)] for unit in units]
        deadline = time.monotonic() + wait_s
        with self._open():
            while True:
                writer = self._clients.producer(producer, epoch)
                known = min(max(0, writer.next - sequence), len(encoded))
                new = encoded[known:]
                tuples, size = sum(e.count for u in new for e in u), sum(e.data.size for u in new for e in u)
                if not new or self._has_room(size, tuples):
                    break
                self._wait_for_room(deadline)
            if new:
                self._add_all(new, writer, sequence + known, progress_us)
            else:
                self._note_only(writer, sequence + len(encoded) - 1, progress_us)
            old = sum(e.count for u in encoded[:known] for e in u)
            return Appended(self._clients.end - tuples, self._clients.end, old, writer.next, self._clients.start)

    def progress(self, progress_us: int, producer: str = MAIN, epoch: int | None = None) -> None:
        """Raises the watermark: no tuple older than this will be appended. ENDED: no tuple at all."""
        if producer == MAIN and epoch is None:
            self._open_main()
        with self._open():
            writer = self._clients.producer(producer, epoch)
            self._note_only(writer, None, progress_us)

    def skip(self, offset: int, producer: str = MAIN, epoch: int | None = None) -> None:
        """Declares that nothing below `offset` is needed here and nothing below it will be appended.

        The next tuple has at least that offset. A reader that skips the trimmed range gets TrimNoteMissing until an ack
        brings the note for it.
        """
        with self._open():
            writer = self._clients.producer(producer, epoch)
            self._trimmed(self._clients.skip(writer, offset), sync=self._sync_each)

    def _open_main(self) -> None:
        """Opens the main producer if needed: a queue with one producer in its own process opens it implicitly."""
        with self._open():
            if MAIN not in self._clients.producers:
                self.open_producer(MAIN)

    def _add(self, unit: Sequence[Encoded], writer: Producer, sequence: int, progress_us: int | None) -> None:
        """Stores the new blocks of a unit."""
        self._add_all([unit], writer, sequence, progress_us)

    def _add_all(
        self, units: Sequence[Sequence[Encoded]], writer: Producer, sequence: int, progress_us: int | None
    ) -> None:
        """Stores new units. The last record of the last unit carries the new watermark."""
        records: list[tuple[Record, Encoded]] = []
        end = self._clients.end
        for number, unit in enumerate(units):
            for place, e in enumerate(unit):
                more = place < len(unit) - 1
                last = not more and number == len(units) - 1
                watermark_us = max(writer.progress_us, progress_us if last and progress_us is not None else NO_PROGRESS)
                who = (writer.number, writer.epoch, sequence)
                record = Record(TUPLES, e.data.size, e.crc, more, e.codec, end, e.count, *who, watermark_us)
                records.append((record, e))
                end += e.count
                sequence += e.count if writer.counts == "tuples" else 0
            sequence += 1 if writer.counts == "batches" else 0
        before = self._clients.progress_us
        after = [before] * (len(records) - 1) + [self._clients.progress_if(writer, records[-1][0].progress_us)]
        self._store.append(records, after, self._sync_each)
        for record, _ in records:
            self._clients.appended(record)
        self._unsynced = True
        if self._clients.trim():  # an ack was ahead of the end
            self._store.trim(self._clients.start)
        self._changed.notify_all()

    def _note_only(self, writer: Producer, sequence: int | None, progress_us: int | None) -> None:
        """Handles a unit without new tuples: it may raise the sequence number or the watermark."""
        number = sequence + 1 if writer.counts == "batches" and sequence is not None else writer.next
        watermark_us = max(writer.progress_us, NO_PROGRESS if progress_us is None else progress_us)
        if number <= writer.next and watermark_us == writer.progress_us:
            return
        writer.next, writer.progress_us = max(number, writer.next), watermark_us
        self._store.progressed(self._clients.progress_us)
        # Only the end of the stream is synced: producers repeat any other watermark after a restart.
        self._store.write_state(self._sync_each and watermark_us == ENDED)
        self._changed.notify_all()
