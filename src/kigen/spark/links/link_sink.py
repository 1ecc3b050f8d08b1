"""`INTO link`: appends the rows of a round as one unit to a queue of this node, where other nodes read them.

A batch without rounds is one unit. Rounds that are committed together share one write and one sync. Invariant: unit n
holds the rows of the n-th round with rows. A round that is replayed after a kill gives the same unit again, which the
queue recognises by its number. The sink position is the number of the last unit, so after a restart the numbers
continue from the sink log. If the queue lacks the last unit, it is not the queue that the sink log describes.
Continuing would leave a gap that no reader could see, so the run is refused.
"""

from __future__ import annotations

import threading
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors import Sink
from kigen.connectors.sink_base import SinkPosition
from kigen.lifetimes.exchange.sent import is_end, is_watermark, outputs_of_gap, queue_schema
from kigen.plan.logical import Query
from kigen.queue import ENDED, Appended, Queue, QueueFull, SequenceGap

Unit = list[pa.RecordBatch]  # rows of one round
_PRODUCER = "spark"
_LOOK_S = 0.5  # while the queue is full: how often to check whether the run must end


class LinkSink(Sink):
    """Sink of a query whose results go to other nodes."""

    def __init__(self, query: Query, queue: Queue) -> None:
        super().__init__(query.schema, query.root.is_stream)
        self._queue, self._columns = queue, queue_schema(query.schema, query.root.is_stream)
        self._unit = -1
        self._epoch = 0
        self._batches: Unit = []  # of the unit that is being written
        self._units: list[Unit] = []  # whole units, not in the queue yet
        self._known = 0
        self._interrupted = threading.Event()

    def open(self, position: SinkPosition | None) -> None:
        self._unit = -1 if position is None else int(position["unit"])
        producer = self._queue.open_producer(_PRODUCER, counts="batches")
        self._epoch, self._batches, self._units = producer.epoch, [], []
        self._known = producer.next  # the first unit that the queue does not hold
        self._require_no_gap(producer.next)

    def write(self, table: pa.Table) -> None:
        self._batches += table.select(self._columns.names).cast(self._columns).combine_chunks().to_batches()

    def end_round(self) -> None:
        if self._batches:
            self._units.append(self._batches)
            self._batches = []

    def commit(self) -> SinkPosition:
        self.end_round()
        units, self._units = self._units, []
        together: list[Unit] = []
        for unit in units:
            gap = _last_gap(unit)
            if gap is not None:  # numbers the rows after it as the other replica does
                self._append(together)
                unit, outputs = gap
                together = []
                self._queue.skip(outputs, _PRODUCER, self._epoch)
            together += [unit] if unit else []
        self._append(together)
        return {"unit": self._unit}

    def _append(self, units: list[Unit]) -> None:
        """Appends units. Those that the queue does not hold share one sync, if it has room for all of them."""
        old = max(0, min(self._known - (self._unit + 1), len(units)))
        for unit in units[:old]:
            self._append_one(unit)
        new = units[old:]
        if len(new) > 1:
            with suppress(QueueFull):
                self._append_new(new, 0.0)
                return
        for unit in new:
            self._append_one(unit)

    def _append_new(self, units: list[Unit], wait_s: float) -> Appended:
        done = self._queue.append_units(
            units,
            self._unit + 1,
            producer=_PRODUCER,
            epoch=self._epoch,
            progress_us=ENDED if _is_end_of_stream(units[-1]) else None,
            wait_s=wait_s,
        )
        self._unit += len(units)
        return done

    def _append_one(self, unit: Unit) -> None:
        """Appends a unit. Waits while the queue is full, until a reader acknowledges or the run must end."""
        while True:
            try:
                done = self._append_new([unit], _LOOK_S)
            except QueueFull:
                if self._interrupted.is_set():
                    raise
            else:
                if done.old and self._unit + 1 == self._known:  # the newest unit, whose rows end the queue
                    self._require_same_rows(unit, max(done.end - done.old, done.start), done.end)
                return

    def interrupt(self) -> None:
        self._interrupted.set()

    def _require_no_gap(self, found: int) -> None:
        """Raises SequenceGap if the queue lacks units that the sink log records.

        `found` is the first unit that the queue does not hold. The queue may be ahead of the sink log by one unit,
        whose record was not written.
        """
        expected = self._unit + 1
        if found >= expected:
            return
        raise SequenceGap(
            f"stream '{self._queue.name}': the sink log records that {expected} units were sent, but the queue holds "
            f"{found}. The queue has lost data: by a power cut under durability = process, or because its files were "
            "replaced by older ones. Restore the queue's files, or start this node and those that read from it with a "
            "new --state",
            {"stream": self._queue.name, "expected": expected, "found": found},
        )

    def _require_same_rows(self, unit: Unit, first: int, end: int) -> None:
        """Raises SequenceGap if a unit that was sent before the restart held other rows than the repeated batch.

        Compares the rows that the queue still holds.
        """
        table = pa.Table.from_batches(unit)
        here = table.slice(table.num_rows - (end - first))
        kept = pa.Table.from_batches(self._queue.read(first, end - first, 1 << 62).batches(), self._queue.schema)
        if kept.equals(here) or repr(kept.to_pylist()) == repr(here.to_pylist()):
            return
        raise SequenceGap(
            f"stream '{self._queue.name}': unit {self._unit} was sent before the restart with other rows than the "
            "repeated batch has. Spark lost the offset of that batch, by a power cut under durability = process. Start "
            "this node and those that read from it with a new --state",
            {"stream": self._queue.name, "unit": self._unit, "first": first, "end": end},
        )

    def close(self) -> None:
        """Does nothing: the node closes the queue."""


def _last_gap(unit: Unit) -> tuple[Unit, int] | None:
    """Returns the rows after the last gap row of a unit, and how many results lie before it.

    Rows before the gap need not be sent: they have been delivered.
    """
    for i in range(len(unit) - 1, -1, -1):
        batch = unit[i]
        values = batch.column("_arrived").filter(is_watermark(batch)).to_pylist()
        found = [(place, outputs_of_gap(value)) for place, value in enumerate(values)]
        gaps = [(place, outputs) for place, outputs in found if outputs is not None]
        if gaps:
            place, outputs = gaps[-1]
            after = pc.indices_nonzero(is_watermark(batch))[place].as_py() + 1
            return [b for b in (batch.slice(after), *unit[i + 1 :]) if b.num_rows], outputs
    return None


def _is_end_of_stream(unit: Unit) -> bool:
    last = unit[-1].slice(unit[-1].num_rows - 1)
    return bool(is_watermark(last)[0].as_py()) and is_end(int(last.column("_arrived")[0].as_py()))
