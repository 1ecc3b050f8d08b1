"""Blocks: the messages between operators. A block is one Arrow batch of columns with numpy arrays of times beside it.

There are three kinds. A `StreamBlock` has tuples with a time. A `Block` of the direct method has tuples with a
lifetime, and the fills of holders that were given out earlier. A `Signed` block of the negative-tuple method has one
message at a tuple's birth and another at its death.

Invariant of a step that advances time to `now`: every birth and every fill lies before `now`. A tuple whose death is
not yet known carries a holder (>= 0) and lives at least until `now`; beside a known death the holder has no meaning.
Several tuples may carry one holder. A fill of an unknown holder has no meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.plan.types import Schema, arrow_schema

Ints = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

FOREVER = np.iinfo(np.int64).max  # no death known
BEFORE_TIME = -(2**62)  # earlier than every timestamp
NO_HOLDER = -1
HOLDER_BITS = 40  # low bits of a holder: a number within its operator; the operator's own number is above them
_EMPTY: Ints = np.empty(0, dtype=np.int64)


def no_ints() -> Ints:
    return _EMPTY


@lru_cache(maxsize=1024)
def empty_columns(schema: Schema) -> pa.RecordBatch:
    arrow = arrow_schema(schema)
    return pa.RecordBatch.from_arrays([pa.array([], type=f.type) for f in arrow], schema=arrow)


@lru_cache(maxsize=64)
def _nulls(kind: pa.DataType, rows: int) -> pa.Array:
    return pa.nulls(rows, kind)


def absent(kind: pa.DataType, rows: int) -> pa.Array:
    """Returns a column of NULLs in place of one that nothing reads. Blocks share it."""
    return _nulls(kind, 1 << max(10, (rows - 1).bit_length())).slice(0, rows)


def take_columns(columns: pa.RecordBatch, index: Ints) -> pa.RecordBatch:
    return columns.take(pa.array(index)) if columns.num_columns else columns


def filter_columns(columns: pa.RecordBatch, mask: Mask) -> pa.RecordBatch:
    return columns.filter(pa.array(mask)) if columns.num_columns else columns


def concat_columns(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.concat_batches(list(parts))


def concat_ints(parts: Sequence[Ints]) -> Ints:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True)
class StreamBlock:
    """Tuples of a stream, in the stream's order. `sequence` is their offset in the whole stream."""

    columns: pa.RecordBatch
    at: Ints
    sequence: Ints

    def __len__(self) -> int:
        return len(self.at)


@dataclass(frozen=True)
class Fills:
    """Holders that were filled in this step, and the deaths that fill them."""

    holder: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.holder)

    @staticmethod
    def none() -> Fills:
        return _NO_FILLS

    @staticmethod
    def concat(parts: Sequence[Fills]) -> Fills:
        parts = [p for p in parts if len(p)]
        if not parts:
            return _NO_FILLS
        return Fills(concat_ints([p.holder for p in parts]), concat_ints([p.end for p in parts]))

    def sorted(self) -> Fills:
        """Orders the fills by holder, and keeps only the earliest of several fills of one holder."""
        holder = self.holder
        if len(holder) > 1 and not bool((holder[1:] > holder[:-1]).all()):
            order = np.argsort(holder, kind="stable")  # often a few ordered runs
            ordered = holder[order]
            if bool((ordered[1:] > ordered[:-1]).all()):
                return Fills(ordered, self.end[order])
            order = np.lexsort((self.end, holder))
            first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
            return Fills(ordered[first], self.end[order][first])
        return self


_NO_FILLS = Fills(_EMPTY, _EMPTY)


@dataclass(frozen=True)
class Block:
    """A block of the direct method: births with both times, and fills of earlier holders."""

    columns: pa.RecordBatch
    start: Ints
    end: Ints
    holder: Ints
    fills: Fills

    def __len__(self) -> int:
        return len(self.start)

    @staticmethod
    def empty(schema: Schema, fills: Fills = _NO_FILLS) -> Block:
        return Block(empty_columns(schema), _EMPTY, _EMPTY, _EMPTY, fills)

    def filter(self, mask: Mask) -> Block:
        if bool(mask.all()):
            return self
        return Block(
            filter_columns(self.columns, mask), self.start[mask], self.end[mask], self.holder[mask], self.fills
        )

    def without_ghosts(self) -> Block:
        """Drops the tuples that are never visible."""
        return self.filter(self.start < self.end)

    def take(self, index: Ints) -> Block:
        return Block(
            take_columns(self.columns, index), self.start[index], self.end[index], self.holder[index], self.fills
        )

    def with_columns(self, columns: pa.RecordBatch) -> Block:
        return Block(columns, self.start, self.end, self.holder, self.fills)

    @staticmethod
    def concat(parts: Sequence[Block]) -> Block:
        fills = Fills.concat([p.fills for p in parts])
        full = [p for p in parts if len(p)] or [parts[0]]
        return Block(
            concat_columns([p.columns for p in full]),
            concat_ints([p.start for p in full]),
            concat_ints([p.end for p in full]),
            concat_ints([p.holder for p in full]),
            fills,
        )


@dataclass(frozen=True)
class Signed:
    """A block of the negative-tuple method: `sign` is +1 at birth and -1 at death. Both messages have all columns and
    the tuple's id."""

    columns: pa.RecordBatch
    at: Ints
    sign: Ints
    id: Ints

    def __len__(self) -> int:
        return len(self.at)

    @staticmethod
    def empty(schema: Schema) -> Signed:
        return Signed(empty_columns(schema), _EMPTY, _EMPTY, _EMPTY)

    def filter(self, mask: Mask) -> Signed:
        if bool(mask.all()):
            return self
        return Signed(filter_columns(self.columns, mask), self.at[mask], self.sign[mask], self.id[mask])

    def with_columns(self, columns: pa.RecordBatch) -> Signed:
        return Signed(columns, self.at, self.sign, self.id)

    @staticmethod
    def concat(parts: Sequence[Signed]) -> Signed:
        full = [p for p in parts if len(p)] or [parts[0]]
        return Signed(
            concat_columns([p.columns for p in full]),
            concat_ints([p.at for p in full]),
            concat_ints([p.sign for p in full]),
            concat_ints([p.id for p in full]),
        )

    def as_block(self) -> Block:
        """Converts to the direct form: a birth carries its id as holder, and a death fills it. A birth whose death is
        in the same block gets the death directly."""
        born = self.sign > 0
        dead = ~born
        at, ids = self.at[born], self.id[born]
        fills = Fills(self.id[dead], self.at[dead]).sorted()
        end = np.full(len(at), FOREVER)
        if len(fills) and len(at) and int(fills.holder[-1]) >= int(ids.min()):
            place = np.minimum(np.searchsorted(fills.holder, ids), len(fills) - 1)
            end = np.where(fills.holder[place] == ids, fills.end[place], FOREVER)
        return Block(filter_columns(self.columns, born), at, end, ids, fills)
