"""`INTO link`: the rows of a batch go into a queue of this node as one unit; whoever reads the stream finds them there.

Invariant: unit n is that of the n-th batch with rows; a batch that is replayed after a kill gives the same unit again, which the queue
knows by its number. What `mark` gives names the last unit, so after a restart numbers go on where the sink log stands.
"""

from __future__ import annotations

import pyarrow as pa

from kigen.connectors import Sink
from kigen.connectors.sinks import Mark
from kigen.lifetimes.sent import is_end, is_mark, queue_schema
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
        if self._batches:
            last = self._batches[-1].slice(self._batches[-1].num_rows - 1)
            ended = is_mark(last)[0].as_py() and is_end(int(last.column("_arrived")[0].as_py()))
            progress_us = ENDED if ended else None
            self._queue.append(self._batches, self._unit + 1, producer=_PRODUCER, epoch=self._epoch, progress_us=progress_us)
            self._unit += 1
            self._batches = []
        return {"unit": self._unit}

    def close(self) -> None:
        """The queue is the node's."""
