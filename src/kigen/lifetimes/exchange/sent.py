"""Writes a query's results as rows of a queue, for another node: tuples when they are born, deaths when they are known,
and watermarks.

A row of a stream has `_at`. A row of a relation has `_from`, `_to` (FOREVER: not known yet) and `_holder`; a fill of a
holder is a row whose `_from` and columns are NULL. `_arrived` is when the tuple that caused a row arrived at its first
node; the worker knows it (kigen.spark.operator.arrival_times). After the rows of each step comes a watermark row. A
step without rows gives one only if `SPACING_US` have passed since the last one: rounds take milliseconds, and a row
costs every node of its way a write. The times and columns of a watermark row are NULL, it has no holder, and its
`_arrived` is one of three:

- progress: all rows before that instant are in the queue;
- the end: nothing follows. It carries the last timestamp of the streams below, if they had any;
- a gap (a gap row): rows before this one were dropped on purpose.

Invariant: read in order up to a watermark of progress, the rows give the relation, or the stream, at every instant
before it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.blocks import FOREVER, NO_HOLDER, Fills, Ints, StreamBlock
from kigen.lifetimes.chunks import State
from kigen.lifetimes.operator import Message
from kigen.plan.logical import Query
from kigen.plan.types import Schema, arrow_schema

SPACING_US = 20_000  # between two watermark rows without other rows
END_OF_TIME = 2**62  # later than any death; a watermark of progress is at most this
_GAP_FROM = -(2**62) - 1  # a gap row has this less the number of results before it
_END_FROM = 2**62 + 2**61  # a watermark of the end is this plus the last timestamp, or FOREVER


def queue_schema(schema: Schema, is_stream: bool) -> pa.Schema:
    """Returns the columns of the queue that carries a stream or a relation."""
    times = ["_at"] if is_stream else ["_from", "_to", "_holder"]
    return pa.schema([*arrow_schema(schema), *(pa.field(name, pa.int64()) for name in (*times, "_arrived"))])


def is_watermark(rows: pa.Table | pa.RecordBatch) -> pa.Array:
    """Finds the watermark rows, gap rows among them. The value of a watermark row is its `_arrived`."""
    if "_at" in rows.schema.names:
        return pc.is_null(rows.column("_at"))
    return pc.and_(pc.is_null(rows.column("_from")), pc.equal(rows.column("_holder"), NO_HOLDER))


def watermark_places(rows: pa.RecordBatch) -> list[int]:
    """Returns the positions of the watermark rows."""
    found: list[int] = np.flatnonzero(np.asarray(is_watermark(rows).to_numpy(zero_copy_only=False), bool)).tolist()
    return found


def is_end(watermark: int) -> bool:
    """Whether a watermark row says that nothing follows."""
    return watermark > END_OF_TIME


def gap_row(schema: Schema, is_stream: bool, outputs: int) -> pa.RecordBatch:
    """Makes the row that stands for rows that were dropped before they came here, because all their results are
    delivered. The results that follow are numbered from `outputs` on."""
    return _watermark_row(queue_schema(schema, is_stream), _GAP_FROM - outputs)


def outputs_of_gap(watermark: int) -> int | None:
    """Returns the number of results before a gap row; None if the row is no gap row."""
    return _GAP_FROM - watermark if watermark <= _GAP_FROM else None


def last_of_end(watermark: int) -> int | None:
    """Returns the last timestamp that a watermark of the end carries; None if the streams were empty."""
    return None if watermark == FOREVER else watermark - _END_FROM


class SentRows:
    """Turns the messages of a query's root into rows of a queue."""

    def __init__(self, query: Query, every_step: bool = False) -> None:
        """`every_step`: each step gives a watermark row. Replicas of a node must number their rows equally, also where
        one of them began later than the other."""
        self._schema = queue_schema(query.schema, query.root.is_stream)
        self._every_step = every_step
        self._sent: int | None = None  # the last watermark
        self.finished = False

    def step(self, message: Message, now: int | None) -> pa.Table | None:
        """Returns the rows of a step. `now` is None beyond the end of the streams: then there is no watermark row,
        because the receiver must not go there before it knows that they ended."""
        if isinstance(message, StreamBlock):
            rows = [self._rows(message.columns, message.at)]
        else:
            rows = [self._rows(message.columns, message.start, message.end, message.holder)]
            if len(message.fills):
                rows.append(self._without_columns(message.fills.end, message.fills.holder))
        if not any(batch.num_rows for batch in rows) and (now is None or self._is_too_soon(now)):
            return None
        self._sent = self._sent if now is None else now
        return pa.Table.from_batches(rows if now is None else [*rows, self._watermark(now)], self._schema)

    def _is_too_soon(self, now: int) -> bool:
        return not self._every_step and self._sent is not None and now < self._sent + SPACING_US

    def finish(self, known: Fills, last: int | None) -> pa.Table | None:
        self.finished = True
        return pa.Table.from_batches([self._watermark(FOREVER if last is None else _END_FROM + last)], self._schema)

    def _rows(self, columns: pa.RecordBatch, *times: Ints) -> pa.RecordBatch:
        known = [pa.array(t, pa.int64()) for t in times]
        return pa.RecordBatch.from_arrays(
            [*columns.columns, *known, pa.nulls(columns.num_rows, pa.int64())], schema=self._schema
        )

    def _without_columns(self, end: Ints, holder: Ints) -> pa.RecordBatch:
        values = {"_to": pa.array(end, pa.int64()), "_holder": pa.array(holder, pa.int64())}
        return pa.RecordBatch.from_arrays(
            [values.get(f.name, pa.nulls(len(end), f.type)) for f in self._schema], schema=self._schema
        )

    def _watermark(self, value: int) -> pa.RecordBatch:
        return _watermark_row(self._schema, value)

    def jump(self, outputs: int) -> pa.Table:
        """Returns a gap row: the results that follow are numbered from `outputs` on."""
        return pa.Table.from_batches([_watermark_row(self._schema, _GAP_FROM - outputs)], self._schema)

    @property
    def next_event(self) -> int:
        return FOREVER

    @property
    def held(self) -> int:
        return 0

    def state(self) -> State:
        return {"finished": self.finished, "sent": self._sent}

    def load(self, state: State) -> None:
        self.finished, self._sent = state["finished"], state.get("sent")


def _watermark_row(schema: pa.Schema, value: int) -> pa.RecordBatch:
    values = {"_holder": pa.array([NO_HOLDER], pa.int64()), "_arrived": pa.array(np.array([value]), pa.int64())}
    return pa.RecordBatch.from_arrays([values.get(f.name, pa.nulls(1, f.type)) for f in schema], schema=schema)
