"""The groups that an operator holds: a slot for each different row of key columns, and those columns, so that live
tuples need not carry them.

A slot is found by the row's 64-bit key and confirmed by comparing the columns. The rare rows that share a key with a
different row are found through a dict. Columns are appended when slots are given out, in parts of growing size. The
columns of released slots are removed when they outnumber the others. Cost: amortised one copy and one comparison per
row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import Ints, concat_columns, empty_columns, no_ints, take_columns
from kigen.lifetimes.chunks import State
from kigen.lifetimes.keys.column_parts import take_rows
from kigen.lifetimes.keys.key_table import KeyTable
from kigen.lifetimes.keys.row_keys import equal_rows, null_key, one_to_one, plain_values, row_keys, row_values
from kigen.lifetimes.keys.slot_arrays import grown
from kigen.plan.types import Schema

_SLACK = 1024
_MANY, _SAMPLE, _FEW = 4096, 256, 64


def few_codes(columns: pa.RecordBatch, rows: int) -> tuple[Ints, Ints] | None:
    """Returns a small number for each row and one example row of each number, if the text columns have few different
    rows; else None."""
    if rows < _MANY or not columns.num_columns or not any(pa.types.is_string(c.type) for c in columns.columns):
        return None
    if any(pa.types.is_nested(c.type) for c in columns.columns):
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
    """Slots by key, and the key columns of each slot."""

    def __init__(self, schema: Schema, secret: int = 0) -> None:
        self.key_table = KeyTable(secret)
        self._schema, self._secret = schema, secret
        self._exact = one_to_one(schema)
        self._plain = not any(column.type.is_nested for column in schema)  # lists and structs are no keys of a dict
        self._parts: list[pa.RecordBatch] = []  # key columns; each part is less than half as long as the one before
        self._rows = 0  # in all parts
        self._row = np.empty(0, dtype=np.int32)  # row in the parts, by slot
        # Keys of a few rows that come often: asking DuckDB takes a millisecond.
        self._hashed: dict[tuple[Any, ...], int] = {}
        self._slot_of: dict[tuple[Any, ...], int] = {}  # slots of rows that came a few at a time
        self._values_of: dict[int, tuple[Any, ...]] = {}  # and the columns of those slots
        self._crowded: Ints = no_ints()  # keys that several different rows share
        self._among: dict[tuple[Any, ...], int] = {}  # slots of the rows with crowded keys

    def assign(self, columns: pa.RecordBatch, rows: int) -> Ints:
        """Returns the slot of each row. `columns` are the key columns."""
        if 0 < rows <= _FEW and self._schema and self._plain:
            return self._assign_few(columns, rows)
        few = few_codes(columns, rows)
        if few is None:
            return self._assign(columns, rows)
        codes, examples = few
        slot_of = np.zeros(int(codes.max()) + 1, dtype=np.int64)
        slot_of[codes[examples]] = self._assign(take_columns(columns, examples), len(examples))
        return slot_of[codes]

    def _assign_few(self, columns: pa.RecordBatch, rows: int) -> Ints:
        values = list(zip(*(plain_values(column) for column in columns.columns), strict=True))
        known = [self._slot_of.get(row, -1) for row in values]
        if min(known) >= 0:
            return np.array(known, dtype=np.int64)
        slots = self._assign(columns, rows)
        if len(self._slot_of) > _MANY:
            self._forget_values()
        # The columns of the slot, not those of the row: 0.0 and -0.0 are one group.
        held = zip(*(plain_values(column) for column in self.columns_of(slots).columns), strict=True)
        for slot, row in zip(slots.tolist(), held, strict=True):
            if all(value == value for value in row):  # NaN is not found in a dict
                self._slot_of[row], self._values_of[slot] = slot, row
        return slots

    def _forget_values(self) -> None:
        self._slot_of.clear()
        self._values_of.clear()

    def _assign(self, columns: pa.RecordBatch, rows: int) -> Ints:
        keys = self._keys(columns, rows)
        crowded = np.isin(keys, self._crowded) if len(self._crowded) else None
        if crowded is None or not bool(crowded.any()):
            return self._found(columns, keys)
        slots = np.empty(rows, dtype=np.int64)
        slots[~crowded] = self._found(columns.filter(pa.array(~crowded)), keys[~crowded])
        slots[crowded] = [self._slot_among(columns.slice(row, 1)) for row in np.flatnonzero(crowded).tolist()]
        return slots

    def _found(self, columns: pa.RecordBatch, keys: Ints) -> Ints:
        """Returns the slots of rows whose keys are not crowded."""
        slots, fresh = self.key_table.assign(keys)
        if self._schema:
            self._append(columns, slots, fresh)
            doubtful = self._doubtful(keys, fresh)
            if len(doubtful):
                self._confirm(columns, keys, slots, doubtful)
        return slots

    def _append(self, columns: pa.RecordBatch, slots: Ints, fresh: Ints) -> None:
        if len(fresh):
            self._row = grown(self._row, self.key_table.capacity)
            self._row[slots[fresh]] = np.arange(self._rows, self._rows + len(fresh))
            self._rows += len(fresh)
            part = (
                columns
                if len(fresh) == columns.num_rows and bool(np.all(fresh[1:] > fresh[:-1]))
                else take_columns(columns, fresh)
            )
            merged, size = [part], part.num_rows
            while self._parts and self._parts[-1].num_rows <= 2 * size:
                merged.insert(0, self._parts.pop())
                size += merged[0].num_rows
            self._parts.append(concat_columns(merged))

    def _doubtful(self, keys: Ints, fresh: Ints) -> Ints:
        """Returns the rows that were found by their key alone, which a different row might share."""
        if self._exact:
            return np.flatnonzero(keys == null_key(self._secret))
        if len(fresh) == len(keys):
            return fresh[:0]
        found = np.ones(len(keys), dtype=np.bool_)
        found[fresh] = False
        return np.flatnonzero(found)

    def _confirm(self, columns: pa.RecordBatch, keys: Ints, slots: Ints, doubtful: Ints) -> None:
        """Compares the columns of rows with those of the slots they were given. If they differ, the key becomes
        crowded: its rows are found through a dict, each with a slot of its own."""
        given = columns if len(doubtful) == columns.num_rows else take_columns(columns, doubtful)
        same = equal_rows(given.columns, self.columns_of(slots[doubtful]).columns, len(doubtful))
        for row in doubtful[~same].tolist():
            if keys[row] not in self._crowded:
                self._crowded = np.append(self._crowded, keys[row])
                self._among[row_values(self.columns_of(slots[row : row + 1]))] = int(slots[row])
            slots[row] = self._slot_among(columns.slice(row, 1))

    def _slot_among(self, row: pa.RecordBatch) -> int:
        """Returns the slot of a row whose key is crowded."""
        values = row_values(row)
        if values not in self._among:
            key = np.array([self._rows], dtype=np.int64)
            while int(self.key_table.find(key)[0]) >= 0 or key[0] in self._crowded:
                key = key * 6364136223846793005 + 1442695040888963407  # any key that is free
            slot, fresh = self.key_table.assign(key)
            self._append(row, slot, fresh)
            self._among[values] = int(slot[0])
        return self._among[values]

    def _keys(self, columns: pa.RecordBatch, rows: int) -> Ints:
        every = range(columns.num_columns)
        if self._exact or not self._plain or not 0 < rows <= _FEW:
            return row_keys(columns, rows, every, self._secret)
        values = list(zip(*(plain_values(column) for column in columns.columns), strict=True))
        if any(row not in self._hashed for row in values):
            if len(self._hashed) > _MANY:
                self._hashed.clear()
            self._hashed |= zip(values, row_keys(columns, rows, every, self._secret).tolist(), strict=True)
        return np.array([self._hashed[row] for row in values], dtype=np.int64)

    def columns_of(self, slots: Ints) -> pa.RecordBatch:
        if not self._schema:
            return empty_columns(self._schema)
        if len(slots) > _FEW and self._parts:
            arrays = take_rows(self._parts, self._row[slots].astype(np.int64)).columns
        else:
            arrays = [self.column_of(i, slots) for i in range(len(self._schema))]
        return pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])

    def column_of(self, column: int, slots: Ints) -> pa.Array:
        if len(slots) <= _FEW:
            rows = [self._values_of.get(slot) for slot in slots.tolist()]
            if None not in rows:
                kind = self._schema[column].type.arrow
                return pa.array([row[column] for row in rows if row is not None], kind)
        if not self._parts:
            return empty_columns(self._schema).column(column)
        return take_rows([part.select([column]) for part in self._parts], self._row[slots].astype(np.int64)).column(0)

    def release(self, slots: Ints) -> None:
        self.key_table.release(slots)
        if len(slots) > _FEW:
            self._forget_values()
        for slot in slots.tolist() if self._values_of else ():
            row = self._values_of.pop(slot, None)
            if row is not None:
                self._slot_of.pop(row, None)
        if self._among and len(slots):
            gone = set(slots.tolist())
            self._among = {row: slot for row, slot in self._among.items() if slot not in gone}
        if self._schema and self._rows > 2 * len(self.key_table) + _SLACK:
            live = np.flatnonzero(self.key_table.serial >= 0)
            self._parts = [self.columns_of(live)]
            self._rows = len(live)
            self._row[live] = np.arange(len(live))

    def __len__(self) -> int:
        return len(self.key_table)

    def state(self) -> State:
        live = np.flatnonzero(self.key_table.serial >= 0)
        return {"slots": self.key_table.state(), "columns": self.columns_of(live), "live": live}

    def load(self, state: State) -> None:
        """Restores the groups. Keys are computed again from the columns, because they may have been made with another
        secret."""
        columns, live = state["columns"], state["live"]
        self._forget_values()
        saved = dict(state["slots"])
        if self._schema:
            saved["keys"] = self._new_keys(columns, live)
        self.key_table.load(saved)
        self._parts, self._rows = [columns] if len(live) else [], len(live)
        self._row = np.zeros(self.key_table.capacity, dtype=np.int32)
        self._row[live] = np.arange(len(live))

    def _new_keys(self, columns: pa.RecordBatch, live: Ints) -> Ints:
        keys = row_keys(columns, len(live), range(len(self._schema)), self._secret).copy()
        different, first, counts = np.unique(keys, return_index=True, return_counts=True)
        self._crowded = different[counts > 1]
        rows = np.flatnonzero(np.isin(keys, self._crowded)).tolist() if len(self._crowded) else []
        self._among = {row_values(columns.slice(row, 1)): int(live[row]) for row in rows}
        taken = set(keys.tolist()) if rows else set()
        for row in set(rows) - set(first.tolist()):  # any key that is free
            keys[row] = next(key for key in range(len(taken) + 1) if key not in taken)
            taken.add(int(keys[row]))
        return keys
