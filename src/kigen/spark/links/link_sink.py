"""`INTO link`: the rows of a batch go into a queue of this node as one unit; whoever reads the stream finds them there.

Invariant: unit n is that of the n-th batch with rows; a batch that is replayed after a kill gives the same unit again,
which the queue knows by its number. What `commit` returns names the last unit, so after a restart numbers go on where
the sink log stands. A queue that does not hold the unit before is not the one that the sink log speaks of: going on
would leave a gap that no reader could see, so it is refused.
"""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors import Sink
from kigen.connectors.sink_base import SinkPosition
from kigen.lifetimes.exchange.sent import is_end, is_mark, outputs_of_hole, queue_schema
from kigen.plan.logical import Query
from kigen.queue import ENDED, Queue, QueueFull, SequenceGap

_PRODUCER = "spark"
_LOOK_S = 0.5  # a full queue: how often to look whether the run is to end


class LinkSink(Sink):
    def __init__(self, query: Query, queue: Queue) -> None:
        super().__init__(query.schema, query.root.is_stream)
        self._queue, self._columns = queue, queue_schema(query.schema, query.root.is_stream)
        self._unit = -1
        self._epoch = 0
        self._batches: list[pa.RecordBatch] = []
        self._interrupted = threading.Event()

    def open(self, position: SinkPosition | None) -> None:
        self._unit = -1 if position is None else int(position["unit"])
        producer = self._queue.open_producer(_PRODUCER, counts="batches")
        self._epoch, self._batches = producer.epoch, []
        self._no_gap(producer.next)

    def write(self, table: pa.Table) -> None:
        self._batches += table.select(self._columns.names).cast(self._columns).combine_chunks().to_batches()

    def commit(self) -> SinkPosition:
        self._jump()
        if self._batches:
            last = self._batches[-1].slice(self._batches[-1].num_rows - 1)
            ended = is_mark(last)[0].as_py() and is_end(int(last.column("_arrived")[0].as_py()))
            self._append(ENDED if ended else None)
            self._unit += 1
            self._batches = []
        return {"unit": self._unit}

    def _append(self, progress_us: int | None) -> None:
        """A full queue is waited for until somebody reads, or the run is to end."""
        while True:
            try:
                done = self._queue.append(
                    self._batches,
                    self._unit + 1,
                    producer=_PRODUCER,
                    epoch=self._epoch,
                    progress_us=progress_us,
                    wait_s=_LOOK_S,
                )
            except QueueFull:
                if self._interrupted.is_set():
                    raise
            else:
                if done.old:
                    self._same_rows(max(done.end - done.old, done.start), done.end)
                return

    def interrupt(self) -> None:
        self._interrupted.set()

    def _no_gap(self, found: int) -> None:
        """`found`: the first unit that the queue does not hold. It may be ahead of the sink log by a unit whose record
        was not written."""
        expected = self._unit + 1
        if found >= expected:
            return
        raise SequenceGap(
            f"stream '{self._queue.name}': the sink log says that {expected} units were sent, the queue holds "
            f"{found}. The queue lost what "
            "had been written into it: by a power cut under durability = process, or files of another time were put "
            "in its place. Restore "
            f"the queue's files, or start this node and those that read from it with a new --state",
            {"stream": self._queue.name, "expected": expected, "found": found},
        )

    def _same_rows(self, first: int, end: int) -> None:
        """A unit that was there before the restart: as far as it is still kept, it must hold the rows that were made
        again."""
        table = pa.Table.from_batches(self._batches)
        here = table.slice(table.num_rows - (end - first))
        kept = pa.Table.from_batches(self._queue.read(first, end - first, 1 << 62).batches(), self._queue.schema)
        if kept.equals(here) or repr(kept.to_pylist()) == repr(here.to_pylist()):
            return
        raise SequenceGap(
            f"stream '{self._queue.name}': unit {self._unit + 1} was sent before the restart with other rows than "
            "were made now. Spark "
            "lost the offset of that batch: by a power cut under durability = process. Start this node and those "
            "that read from it with a "
            f"new --state",
            {"stream": self._queue.name, "unit": self._unit + 1, "first": first, "end": end},
        )

    def _jump(self) -> None:
        """Rows behind a hole in the input are numbered as the other replica numbers them; what lies before is
        delivered."""
        for i in range(len(self._batches) - 1, -1, -1):
            batch = self._batches[i]
            values = batch.column("_arrived").filter(is_mark(batch)).to_pylist()
            jumps = [(place, value) for place, value in enumerate(values) if outputs_of_hole(value) is not None]
            if jumps:
                outputs = outputs_of_hole(jumps[-1][1])
                assert outputs is not None
                after = pc.indices_nonzero(is_mark(batch))[jumps[-1][0]].as_py() + 1
                self._batches = [b for b in (batch.slice(after), *self._batches[i + 1 :]) if b.num_rows]
                self._queue.skip(outputs, _PRODUCER, self._epoch)
                return

    def close(self) -> None:
        """The queue is the node's."""
