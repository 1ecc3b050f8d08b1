"""`INTO link`: the rows of a batch go into a queue of this node as one unit; whoever reads the stream finds them there.

Invariant: unit n is that of the n-th batch with rows; a batch that is replayed after a kill gives the same unit again, which the queue
knows by its number. What `mark` gives names the last unit, so after a restart numbers go on where the sink log stands.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors import Sink
from kigen.connectors.sinks import Mark
from kigen.lifetimes.sent import is_end, is_mark, outputs_of_hole, queue_schema
from kigen.links import ENDED, Queue
from kigen.plan.nodes import Query

_PRODUCER = "spark"


class LinkSink(Sink):
    def __init__(self, query: Query, queue: Queue) -> None:
        super().__init__(query.schema, query.root.is_stream)
        self._queue, self._columns = queue, queue_schema(query.schema, query.root.is_stream)
        self._unit = -1
        self._epoch = 0
        self._batches: list[pa.RecordBatch] = []

    def open(self, mark: Mark | None) -> None:
        self._unit = -1 if mark is None else int(mark["unit"])
        self._epoch = self._queue.open_producer(_PRODUCER, counts="batches").epoch
        self._batches = []

    def write(self, table: pa.Table) -> None:
        self._batches += table.select(self._columns.names).cast(self._columns).combine_chunks().to_batches()

    def mark(self) -> Mark:
        self._jump()
        if self._batches:
            last = self._batches[-1].slice(self._batches[-1].num_rows - 1)
            ended = is_mark(last)[0].as_py() and is_end(int(last.column("_arrived")[0].as_py()))
            progress_us = ENDED if ended else None
            self._queue.append(self._batches, self._unit + 1, producer=_PRODUCER, epoch=self._epoch, progress_us=progress_us)
            self._unit += 1
            self._batches = []
        return {"unit": self._unit}

    def _jump(self) -> None:
        """Rows behind a hole in the input are numbered as the other replica numbers them; what lies before is delivered."""
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
