"""Models a queue in memory: the bookkeeping is the real one (`kigen.queue.producers_and_readers`), rows are numbers.

A row is a tuple (0 or more), a watermark (WATERMARK, END) or a gap row (GAP less the number of results before it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from kigen.queue import ENDED
from kigen.queue.producers_and_readers import ProducersAndReaders
from kigen.queue.record import TUPLES, Record

WATERMARK, END, GAP = -1, -2, -10
T = TypeVar("T")
SELF, RELAY = "spark", "relay"  # producers: the node's own run, and the relay from its upstream node


def clone(one: T) -> T:
    """Copies an object, not what it refers to: as `copy.copy`, but several times quicker."""
    made: T = object.__new__(type(one))
    made.__dict__.update(one.__dict__)
    return made


def to_batch(rows: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(rows, pa.int64())], ["row"])


def to_rows(batches: list[pa.RecordBatch]) -> list[int]:
    return [row for batch in batches for row in batch.column(0).to_pylist()]


def find_watermarks(batch: pa.RecordBatch) -> list[int]:
    return [index for index, row in enumerate(batch.column(0).to_pylist()) if row < 0]


def make_gap_row(note: str) -> pa.RecordBatch:
    return to_batch([GAP - int(note or 0)])


@dataclass
class VirtualQueue:
    clients: ProducersAndReaders = field(default_factory=ProducersAndReaders)
    rows: list[int] = field(default_factory=list)  # that are kept

    @staticmethod
    def read_by(*readers: str, required: list[str] | None = None) -> VirtualQueue:
        """Makes an empty queue. `required`: the readers whose acks are waited for (None: all)."""
        queue = VirtualQueue()
        for reader in readers:
            queue.clients.open_reader(reader, None, None)
        queue.clients.required = sorted(readers if required is None else required)
        return queue

    @property
    def start(self) -> int:
        return self.clients.start

    @property
    def end(self) -> int:
        return self.clients.end

    @property
    def ended(self) -> bool:
        return self.clients.progress_us == ENDED

    def append(self, rows: list[int], sequence: int, producer: str, ended: bool) -> None:
        clients, who = self.clients, self.clients.producers[producer]
        old = clients.old(who, sequence, len(rows))
        progress_us = ENDED if ended else who.progress_us
        if old == len(rows):
            who.next = max(who.next, sequence + 1) if who.counts == "batches" else who.next
            who.progress_us = max(who.progress_us, progress_us)
            return
        self.rows += rows[old:]
        count = len(rows) - old
        record = Record(TUPLES, 0, 0, False, 0, clients.end, count, who.number, who.epoch, sequence + old, progress_us)
        clients.appended(record)
        self._trim(clients.trim)

    def skip(self, offset: int) -> None:
        """Goes on at `offset`: the results before it are delivered."""
        self.rows += [0] * max(0, offset - self.end)
        self._trim(lambda: self.clients.skip(self.clients.producers[SELF], offset))

    def ack(self, reader: str, offset: int, note: str = "") -> None:
        if self.clients.ack(reader, offset, None, note):
            self._trim(self.clients.trim)

    def require(self, readers: list[str]) -> None:
        self.clients.required = sorted(readers)
        self._trim(self.clients.trim)

    def _trim(self, by: Callable[[], bool]) -> None:
        start = self.start
        by()
        del self.rows[: self.start - start]

    def read(self, offset: int, batch: int | None = None, skip_trimmed: bool = False) -> tuple[int, list[int]] | None:
        """Returns where the answer begins, and its rows: whole batches, unless no more will come. None: the queue does
        not know the note of what it trimmed."""
        start, first = self.start, self.clients.beginning(offset)
        assert offset >= start or skip_trimmed, f"offset {offset} is not kept any more, {start} is the first"
        if first is None:
            return None
        rows = self.rows[first - start :]
        whole = len(rows) if batch is None or self.ended else len(rows) // batch * batch
        return first, rows[:whole]

    def copy(self) -> VirtualQueue:
        clients = clone(self.clients)
        clients.producers = {name: clone(producer) for name, producer in clients.producers.items()}
        clients.readers = {name: clone(reader) for name, reader in clients.readers.items()}
        return VirtualQueue(clients, list(self.rows))

    def key(self) -> tuple[object, ...]:
        clients = self.clients
        producers = tuple((name, p.next, p.progress_us) for name, p in clients.producers.items())
        readers = tuple((name, r.ack, r.note) for name, r in clients.readers.items())
        required = tuple(clients.required)
        return clients.start, clients.end, clients.note, producers, readers, required, tuple(self.rows)
