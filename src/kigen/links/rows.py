"""Blocks of the kernel as rows of a queue, and back: every tuple, and every fill of a holder, has its offset and is replayed in order.

A stream's tuple carries `_at` and `_sequence`. A relation's birth carries `_from`, `_to` (FOREVER: not known yet) and `_holder`; a fill of
a holder handed out earlier is a row of its own, `_from` NULL, columns NULL, `_to` the death. A negative-tuple message carries `_at`,
`_sign` and `_id`.

Invariant: `x_of(x_rows(block))` equals the block, births and fills apart each in their order; fills of a block come behind its births.
Cost: no copy of columns but where fills are added or taken out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.blocks import Block, Fills, Ints, Signed, StreamBlock, concat_columns

_INT = pa.int64()
_STREAM, _RELATION, _SIGNED = ("_at", "_sequence"), ("_from", "_to", "_holder"), ("_at", "_sign", "_id")


def stream_rows(block: StreamBlock) -> pa.RecordBatch:
    return _with(block.columns, _STREAM, [block.at, block.sequence])


def stream_of(rows: pa.RecordBatch) -> StreamBlock:
    columns, (at, sequence) = _without(rows, _STREAM)
    return StreamBlock(columns, at, sequence)


def relation_rows(block: Block) -> pa.RecordBatch:
    born = _with(block.columns, _RELATION, [block.start, block.end, block.holder])
    fills = block.fills
    if not len(fills):
        return born
    nothing = pa.nulls(len(fills))
    filled = [nothing.cast(f.type) for f in block.columns.schema] + [nothing.cast(_INT), pa.array(fills.end), pa.array(fills.holder)]
    return concat_columns([born, pa.RecordBatch.from_arrays(filled, schema=born.schema)])


def relation_of(rows: pa.RecordBatch) -> Block:
    """Of rows of one or of several blocks, in order."""
    filled = np.asarray(pc.is_null(rows.column("_from")).to_numpy(zero_copy_only=False), bool)
    fills = Fills.none()
    if filled.any():
        of_fills = rows.filter(pa.array(filled))
        fills = Fills(_ints(of_fills.column("_holder")), _ints(of_fills.column("_to")))
        rows = rows.filter(pa.array(~filled))
    columns, (start, end, holder) = _without(rows, _RELATION)
    return Block(columns, start, end, holder, fills)


def signed_rows(block: Signed) -> pa.RecordBatch:
    return _with(block.columns, _SIGNED, [block.at, block.sign, block.id])


def signed_of(rows: pa.RecordBatch) -> Signed:
    columns, (at, sign, ident) = _without(rows, _SIGNED)
    return Signed(columns, at, sign, ident)


def stream_schema(columns: pa.Schema) -> pa.Schema:
    """Of a queue that holds a stream with these columns."""
    return _schema(columns, _STREAM)


def relation_schema(columns: pa.Schema) -> pa.Schema:
    return _schema(columns, _RELATION)


def signed_schema(columns: pa.Schema) -> pa.Schema:
    return _schema(columns, _SIGNED)


def _schema(columns: pa.Schema, names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([*columns, *(pa.field(name, _INT) for name in names)])


def _with(columns: pa.RecordBatch, names: tuple[str, ...], values: list[Ints]) -> pa.RecordBatch:
    arrays = [*columns.columns, *(pa.array(v, _INT) for v in values)]
    return pa.RecordBatch.from_arrays(arrays, schema=_schema(columns.schema, names))


def _without(rows: pa.RecordBatch, names: tuple[str, ...]) -> tuple[pa.RecordBatch, list[Ints]]:
    return rows.drop_columns(list(names)), [_ints(rows.column(name)) for name in names]


def _ints(array: Any) -> Ints:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.int64)
