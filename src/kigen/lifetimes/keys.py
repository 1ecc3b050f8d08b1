"""The key columns of the groups that an operator holds: one row a slot, so that the living tuples need not carry them.

Rows are appended as slots are given out; rows of released slots are dropped when they outnumber the others. Cost: amortised a copy a row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kigen.lifetimes.accumulators import grown
from kigen.lifetimes.alive import State
from kigen.lifetimes.blocks import Ints, concat_columns, empty_columns, no_ints, take_columns
from kigen.lifetimes.expressions import row_keys
from kigen.lifetimes.slots import Slots
from kigen.plan.types import Schema

_SLACK = 1024


class Groups:
    """Slots by key, and each slot's key columns."""

    def __init__(self, schema: Schema) -> None:
        self.slots = Slots()
        self._schema = schema
        self._columns = empty_columns(schema)  # the bulk
        self._recent: list[pa.RecordBatch] = []  # appended since
        self._rows = 0  # in all of them
        self._row: Ints = no_ints()  # by slot

    def assign(self, columns: pa.RecordBatch, rows: int) -> Ints:
        """The slot of each row; `columns` are the key columns."""
        slots, fresh = self.slots.assign(row_keys(columns, rows, range(columns.num_columns)))
        if len(fresh) and self._schema:
            self._row = grown(self._row, self.slots.capacity)
            self._row[slots[fresh]] = np.arange(self._rows, self._rows + len(fresh))
            self._rows += len(fresh)
            self._recent.append(take_columns(columns, fresh))
        return slots

    def columns_of(self, slots: Ints) -> pa.RecordBatch:
        if self._recent:
            self._columns = concat_columns([self._columns, *self._recent])
            self._recent = []
        return take_columns(self._columns, self._row[slots]) if self._schema else self._columns

    def release(self, slots: Ints) -> None:
        self.slots.release(slots)
        if self._schema and self._rows > 2 * len(self.slots) + _SLACK:
            live = np.flatnonzero(self.slots.serial >= 0)
            self._columns = self.columns_of(live)
            self._rows = len(live)
            self._row[live] = np.arange(len(live))

    def __len__(self) -> int:
        return len(self.slots)

    def state(self) -> State:
        live = np.flatnonzero(self.slots.serial >= 0)
        return {"slots": self.slots.state(), "columns": self.columns_of(live), "live": live}

    def load(self, state: State) -> None:
        self.slots.load(state["slots"])
        self._columns, self._recent = state["columns"], []
        live = state["live"]
        self._rows = len(live)
        self._row = np.zeros(self.slots.capacity, dtype=np.int64)
        self._row[live] = np.arange(len(live))
