"""Scalar expressions and row keys, evaluated by DuckDB over one batch (docs/decisions/001).

Cost: about 1 ms a call plus some 30 ns a row and expression; bare columns cost nothing. One connection a process, made on first use.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.blocks import Ints, Mask
from kigen.plan.nodes import Expr

_connection: duckdb.DuckDBPyConnection | None = None
_owner: int | None = None
_NULL_KEY = np.int64(0x1E3779B97F4A7C15)  # stands for NULL among one-to-one keys


class EvaluationError(ValueError):
    """An expression failed on real data (overflow, a cast that does not hold ...)."""


def connection() -> duckdb.DuckDBPyConnection:
    """This process's connection; a forked child makes its own."""
    global _connection, _owner
    if _connection is None or _owner != os.getpid():
        _connection = duckdb.connect(config={"threads": 1})
        _owner = os.getpid()
    return _connection


def _run(columns: pa.RecordBatch, sqls: Sequence[str]) -> pa.RecordBatch:
    select = ", ".join(f"({sql}) AS e{i}" for i, sql in enumerate(sqls))
    try:
        source = connection().from_arrow(pa.Table.from_batches([columns]))
        table = source.project(select).to_arrow_table()
    except duckdb.Error as error:
        raise EvaluationError(str(error).strip()) from error
    return table.combine_chunks().to_batches()[0]


def evaluate(columns: pa.RecordBatch, rows: int, exprs: Sequence[Expr]) -> list[pa.Array]:
    """One array an expression, of the expression's type, in the order of the rows."""
    out: list[pa.Array | None] = [columns.column(e.column) if e.column is not None else None for e in exprs]
    todo = [i for i, array in enumerate(out) if array is None]
    if todo and rows:
        if columns.num_columns == 0:  # constants over rows without columns
            columns = pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["_"])
        result = _run(columns, [exprs[i].sql for i in todo])
        for k, i in enumerate(todo):
            array = result.column(k)
            wanted = exprs[i].type.arrow
            out[i] = array if array.type == wanted else array.cast(wanted)
    return [pa.array([], type=e.type.arrow) if a is None else a for a, e in zip(out, exprs, strict=True)]


def is_true(columns: pa.RecordBatch, rows: int, predicate: Expr) -> Mask:
    """Where the predicate is true (not false, not NULL)."""
    return as_mask(evaluate(columns, rows, [predicate])[0])


def as_mask(array: pa.Array) -> Mask:
    filled = pc.fill_null(array, False)
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.bool_)


def has_null(columns: pa.RecordBatch, keys: Sequence[int]) -> Mask:
    """Rows in which any of the key columns is NULL: they join with nothing."""
    mask = np.zeros(columns.num_rows, dtype=np.bool_)
    for k in keys:
        column = columns.column(k)
        if column.null_count:
            mask |= np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
    return mask


def row_keys(columns: pa.RecordBatch, rows: int, keys: Sequence[int]) -> Ints:
    """A 64-bit key a row: equal for equal rows (NULL equals NULL). One integer or timestamp column is its own key."""
    if not keys or not rows:
        return np.zeros(rows, dtype=np.int64)
    first = columns.column(keys[0])
    if len(keys) == 1 and (pa.types.is_integer(first.type) or pa.types.is_timestamp(first.type)):
        values = first.cast(pa.int64()) if pa.types.is_timestamp(first.type) else first
        if values.null_count:
            values = pc.fill_null(values, int(_NULL_KEY))
        return np.asarray(values.to_numpy(zero_copy_only=False))
    hashed = _run(columns, [f"hash({', '.join(f'c{k}' for k in keys)})"]).column(0)
    return np.asarray(hashed.to_numpy(zero_copy_only=False)).view(np.int64)


def mix(left: Ints, right: Ints, salt: int) -> Ints:
    """A non-negative 62-bit id from two ids; equal pairs give equal ids, different pairs different ones but for chance."""
    a = left.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64((salt * 0xD1B54A32D192ED03 + 1) & 0xFFFFFFFFFFFFFFFF)
    a ^= a >> np.uint64(32)
    a = (a + right.astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
    a ^= a >> np.uint64(29)
    a *= np.uint64(0x94D049BB133111EB)
    a ^= a >> np.uint64(32)
    return (a >> np.uint64(2)).astype(np.int64)
