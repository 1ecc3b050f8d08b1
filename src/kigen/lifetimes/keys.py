"""The key columns of the groups that an operator holds: one row a slot, so that the living tuples need not carry them.

Rows are appended as slots are given out; rows of released slots are dropped when they outnumber the others. Cost: amortised a copy a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kigen.lifetimes.accumulators import grown
from kigen.lifetimes.alive import State
from kigen.lifetimes.blocks import Ints, concat_columns, empty_columns, take_columns
from kigen.lifetimes.expressions import row_keys
from kigen.lifetimes.slots import Slots
from kigen.plan.types import Schema

_SLACK = 1024
_MANY, _SAMPLE, _FEW = 4096, 256, 64


def few_codes(columns: pa.RecordBatch, rows: int) -> tuple[Ints, Ints] | None:
    """Where text columns hold few different rows: a small number for each row, and one example of each number; else None."""
    if rows < _MANY or not columns.num_columns or not any(pa.types.is_string(c.type) for c in columns.columns):
        return None
    codes, size = np.zeros(rows, dtype=np.int64), 1
    for column in columns.columns:
        if len(column.slice(0, _SAMPLE).unique()) > _SAMPLE // 4:
            return None
        encoded = column.dictionary_encode()
        different = len(encoded.dictionary) + 1
        size *= different
        if size > _MANY:
            return None
        indices = encoded.indices.fill_null(different - 1) if encoded.indices.null_count else encoded.indices
        codes = codes * different + indices.to_numpy(zero_copy_only=False)
    example = np.full(size, -1, dtype=np.int64)
    example[codes] = np.arange(rows)
    return codes, example[example >= 0]


class Groups:
    """Slots by key, and each slot's key columns."""

    def __init__(self, schema: Schema) -> None:
        self.slots = Slots()
        self._schema = schema
        self._columns = empty_columns(schema)  # the bulk
        self._recent: list[pa.RecordBatch] = []  # appended since
        self._rows = 0  # in all of them
        self._row = np.empty(0, dtype=np.int32)  # by slot
        self._hashed: dict[tuple[Any, ...], int] = {}  # keys of a few rows that come again and again: asking DuckDB takes a millisecond

    def assign(self, columns: pa.RecordBatch, rows: int) -> Ints:
        """The slot of each row; `columns` are the key columns."""
        few = few_codes(columns, rows)
        if few is None:
            return self._assign(columns, rows)
        codes, examples = few
        slot_of = np.zeros(int(codes.max()) + 1, dtype=np.int64)
        slot_of[codes[examples]] = self._assign(take_columns(columns, examples), len(examples))
        return slot_of[codes]

    def _assign(self, columns: pa.RecordBatch, rows: int) -> Ints:
        slots, fresh = self.slots.assign(self._keys(columns, rows))
        if len(fresh) and self._schema:
            self._row = grown(self._row, self.slots.capacity)
            self._row[slots[fresh]] = np.arange(self._rows, self._rows + len(fresh))
            self._rows += len(fresh)
            self._recent.append(take_columns(columns, fresh))
        return slots

    def _keys(self, columns: pa.RecordBatch, rows: int) -> Ints:
        if not 0 < rows <= _FEW or columns.num_columns < 2:
            return row_keys(columns, rows, range(columns.num_columns))
        values = list(zip(*(column.to_pylist() for column in columns.columns), strict=True))
        if any(row not in self._hashed for row in values):
            if len(self._hashed) > _MANY:
                self._hashed.clear()
            self._hashed |= zip(values, row_keys(columns, rows, range(columns.num_columns)).tolist(), strict=True)
        return np.array([self._hashed[row] for row in values], dtype=np.int64)

    def columns_of(self, slots: Ints) -> pa.RecordBatch:
        return take_columns(self._whole(), self._row[slots].astype(np.int64)) if self._schema else self._columns

    def column_of(self, column: int, slots: Ints) -> pa.Array:
        return self._whole().column(column).take(pa.array(self._row[slots]))

    def _whole(self) -> pa.RecordBatch:
        if self._recent:
            self._columns = concat_columns([self._columns, *self._recent])
            self._recent = []
        return self._columns

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
        self._row = np.zeros(self.slots.capacity, dtype=np.int32)
        self._row[live] = np.arange(len(live))
