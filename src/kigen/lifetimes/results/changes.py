"""Changes of a query's relation: an insert when a row is born, a delete when it dies, as soon as time has passed them.

A table of changes has the columns c0.., `_at` (int64 microseconds) and `_op` ('insert' or 'delete'). Births and deaths
of equal rows at one instant cancel, so the changes of an instant are the difference between two relations. Within an
instant deletes come first, then rows are ordered by their columns, NULLs first. Invariant: over the same input the
tables, one after the other, are the same sequence of rows, however time was cut into steps. Applied in order up to any
instant, they give the relation at that instant. A stream has inserts only.

Cost: the direct method keeps every row that will die; negative tuples need no state.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import FOREVER, Fills, Ints, StreamBlock, take_columns
from kigen.lifetimes.chunks import State
from kigen.lifetimes.keys.row_keys import row_keys
from kigen.lifetimes.operator import Message
from kigen.lifetimes.sweeps.lifecycle import Events, Lifecycle
from kigen.lifetimes.sweeps.net_changes import net_changes
from kigen.lifetimes.sweeps.row_order import column_order
from kigen.plan.logical import Query

INSERT, DELETE = "insert", "delete"
_OPS = pa.array([DELETE, INSERT])


class Changes:
    """Turns the messages of a query's root into changes."""

    def __init__(self, query: Query, signed: bool, secret: int = 0) -> None:
        self._schema, self._secret = query.schema, secret
        self._input = Lifecycle(query.schema, self._keys, signed, range(len(query.schema)))
        self.finished = False

    def _keys(self, columns: pa.RecordBatch, rows: int) -> Ints:
        return row_keys(columns, rows, range(len(self._schema)), self._secret)

    def step(self, message: Message, now: int | None) -> pa.Table | None:
        if isinstance(message, StreamBlock):
            return changes_table(message.columns, message.at, np.ones(len(message), dtype=np.int64))
        assert now is not None, "a query that gives changes ends with its streams"
        return self._changes(self._input.events(message, now))

    def _changes(self, events: Events) -> pa.Table | None:
        sample, time, net = net_changes(events)
        copies = np.abs(net)
        index = np.repeat(sample, copies)
        return ordered_table(take_columns(events.columns, index), np.repeat(time, copies), np.repeat(net, copies))

    def finish(self, known: Fills, last: int | None) -> pa.Table | None:
        """Ends the query. Rows that are alive then stay true: there is nothing to tell."""
        self.finished = True
        return None

    @property
    def next_event(self) -> int:
        """The next death that nobody else would wake up for."""
        return FOREVER if self.finished else self._input.next_death

    @property
    def held(self) -> int:
        return self._input.held

    def state(self) -> State:
        return {"input": self._input.state(), "finished": self.finished}

    def load(self, state: State) -> None:
        self._input.load(state["input"], self._keys)
        self.finished = state["finished"]


def ordered_table(columns: pa.RecordBatch, at: Ints, net: Ints) -> pa.Table | None:
    """Returns the table of changes in order: by time, deletes first, then by columns. `net` is above 0 for inserts."""
    kept = net != 0
    if not bool(kept.all()):
        columns, at, net = take_columns(columns, np.flatnonzero(kept)), at[kept], net[kept]
    sign = np.sign(net)
    if len(at) > 1:
        order = np.lexsort((sign, at))
        sorted_at, sorted_sign = at[order], sign[order]
        if bool(np.any((sorted_at[1:] == sorted_at[:-1]) & (sorted_sign[1:] == sorted_sign[:-1]))):
            order = column_order([at, sign], columns.columns)
        columns, at, sign = take_columns(columns, order), at[order], sign[order]
    return changes_table(columns, at, sign)


def changes_table(columns: pa.RecordBatch, at: Ints, sign: Ints) -> pa.Table | None:
    """Returns a table of changes; None if there is none."""
    if not len(at):
        return None
    ops = _OPS.take(pa.array((sign > 0).astype(np.int64)))
    names = [f"c{i}" for i in range(columns.num_columns)]
    return pa.table([*columns.columns, pa.array(at), ops], names=[*names, "_at", "_op"])
