"""A query's results as rows of a queue, for another node: tuples as soon as they are born, deaths when they are known,
and time itself.

A stream's row has `_at`; a relation's `_from`, `_to` (FOREVER: not known yet) and `_holder`; a fill of a holder is a
row with `_from` and columns NULL. `_arrived` is when the tuple that caused a row came to its first node: the worker
knows it (kigen.spark.operator.arrival_times). Behind the rows of each step lies a mark: a row with its time and columns
NULL, and no holder, whose `_arrived` says either *progress* (all rows before that instant are there) or the *end*
(nothing follows; and the last timestamp of the streams behind it, if they had any). Invariant: read in order up to a
mark of progress, the rows tell the relation, or the stream, at every instant before it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.blocks import FOREVER, NO_HOLDER, Fills, Ints, StreamBlock
from kigen.lifetimes.live_tuples import State
from kigen.lifetimes.operator import Message
from kigen.plan.logical import Query
from kigen.plan.types import Schema, arrow_schema

END_OF_TIME = 2**62  # later than any death; marks of progress are at most this
_HOLE_FROM = -(2**62) - 1  # a mark of a hole is this less the number of results before it
_END_FROM = 2**62 + 2**61  # a mark of the end is this plus the last timestamp, or FOREVER


def queue_schema(schema: Schema, is_stream: bool) -> pa.Schema:
    times = ["_at"] if is_stream else ["_from", "_to", "_holder"]
    return pa.schema([*arrow_schema(schema), *(pa.field(name, pa.int64()) for name in (*times, "_arrived"))])


def is_mark(rows: pa.Table | pa.RecordBatch) -> pa.Array:
    """Which rows are marks; the value of one is its `_arrived`."""
    if "_at" in rows.schema.names:
        return pc.is_null(rows.column("_at"))
    return pc.and_(pc.is_null(rows.column("_from")), pc.equal(rows.column("_holder"), NO_HOLDER))


def mark_places(rows: pa.RecordBatch) -> list[int]:
    """The places of the marks among the rows."""
    found: list[int] = np.flatnonzero(np.asarray(is_mark(rows).to_numpy(zero_copy_only=False), bool)).tolist()
    return found


def is_end(mark: int) -> bool:
    return mark > END_OF_TIME


def hole(schema: Schema, is_stream: bool, outputs: int) -> pa.RecordBatch:
    """A mark for rows that were let go before they came here, all their results being delivered: those to come are
    numbered from `outputs` on."""
    return _mark(queue_schema(schema, is_stream), _HOLE_FROM - outputs)


def outputs_of_hole(mark: int) -> int | None:
    return _HOLE_FROM - mark if mark <= _HOLE_FROM else None


def last_of_end(mark: int) -> int | None:
    return None if mark == FOREVER else mark - _END_FROM


class SentRows:
    def __init__(self, query: Query) -> None:
        self._schema = queue_schema(query.schema, query.root.is_stream)
        self.finished = False

    def step(self, message: Message, now: int | None) -> pa.Table | None:
        """`now` None: beyond the end of the streams, where whoever receives must not go before it knows that they
        ended."""
        if isinstance(message, StreamBlock):
            rows = [self._rows(message.columns, message.at)]
        else:
            rows = [self._rows(message.columns, message.start, message.end, message.holder)]
            if len(message.fills):
                rows.append(self._without_columns(message.fills.end, message.fills.holder))
        return pa.Table.from_batches(rows if now is None else [*rows, self._mark(now)], self._schema)

    def finish(self, known: Fills, last: int | None) -> pa.Table | None:
        self.finished = True
        return pa.Table.from_batches([self._mark(FOREVER if last is None else _END_FROM + last)], self._schema)

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

    def _mark(self, value: int) -> pa.RecordBatch:
        return _mark(self._schema, value)

    def jump(self, outputs: int) -> pa.Table:
        """Rows to come are numbered from there on."""
        return pa.Table.from_batches([_mark(self._schema, _HOLE_FROM - outputs)], self._schema)

    @property
    def held(self) -> int:
        return 0

    def state(self) -> State:
        return {"finished": self.finished}

    def load(self, state: State) -> None:
        self.finished = state["finished"]


def _mark(schema: pa.Schema, value: int) -> pa.RecordBatch:
    values = {"_holder": pa.array([NO_HOLDER], pa.int64()), "_arrived": pa.array(np.array([value]), pa.int64())}
    return pa.RecordBatch.from_arrays([values.get(f.name, pa.nulls(1, f.type)) for f in schema], schema=schema)
