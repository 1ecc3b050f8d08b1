"""Computes a 64-bit key per row: equal rows have equal keys, and different rows have different keys except by chance.

Since chance is not excluded, code that groups or joins by keys also compares the columns of rows that meet
(`equal_rows`). The keys of one integer or timestamp column are its values, so they need no comparison, except for the
one value that stands for NULL. All other keys are mixed with a secret, so that nobody can craft rows with one key. The
secret lies in the checkpoint, since keys are part of the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.blocks import Ints, Mask
from kigen.lifetimes.expressions.evaluation import run
from kigen.lifetimes.keys.column_hashes import column_hashes
from kigen.plan.types import Schema, Type

_STEP = 0x9E3779B97F4A7C15
_ODD = 0xBF58476D1CE4E5B9
_LOW = 0xFFFFFFFFFFFFFFFF


def one_to_one(schema: Schema) -> bool:
    """Whether different rows of these columns have different keys, NULL apart."""
    return not schema or (len(schema) == 1 and schema[0].type in (Type.BIGINT, Type.TIMESTAMP))


def null_key(secret: int) -> int:
    """Returns the key of NULL in a column whose other values are their own keys."""
    return _scrambled(secret + _ODD) - (1 << 63)


def row_keys(columns: pa.RecordBatch, rows: int, keys: Sequence[int], secret: int = 0) -> Ints:
    """Computes the keys of rows from their columns `keys`. NULL equals NULL here."""
    if not keys or not rows:
        return np.zeros(rows, dtype=np.int64)
    if len(keys) == 1:
        values = _integers(columns.column(keys[0]), null_key(secret))
        if values is not None:
            return values
    mixed = np.full(rows, _scrambled(secret), dtype=np.uint64)
    hashed = [k for k in keys if not _is_integer(columns.column(k).type)]
    hashes = column_hashes(columns, hashed)
    for place, k in enumerate(keys):
        values = hashes.get(k)
        if values is None:
            values = _integers(columns.column(k), null_key(secret))
            assert values is not None
        mixed ^= values.view(np.uint64)
        mixed *= np.uint64(_scrambled(secret + (place + 1) * _STEP) | 1)
        mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(_scrambled(secret ^ _ODD) | 1)
    mixed ^= mixed >> np.uint64(29)
    return mixed.view(np.int64)


def _is_integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))


def _integers(column: pa.Array, null: int) -> Ints | None:
    if not _is_integer(column.type):
        return None
    values = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column
    if values.null_count:
        values = pc.fill_null(values, null)
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _scrambled(value: int) -> int:
    """Returns a 64-bit number that depends on every bit of `value` (splitmix64)."""
    value = (value + _STEP) & _LOW
    value = ((value ^ (value >> 30)) * _ODD) & _LOW
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _LOW
    return value ^ (value >> 31)


def equal_rows(left: Sequence[pa.Array], right: Sequence[pa.Array], rows: int) -> Mask:
    """Returns where all columns are equal; NULL equals NULL, NaN equals NaN."""
    same = np.ones(rows, dtype=np.bool_)
    for a, b in zip(left, right, strict=True):
        same &= _equal(a, b)
    return same


def _equal(a: pa.Array, b: pa.Array) -> Mask:
    if pa.types.is_nested(a.type):  # DuckDB knows how lists and structs compare
        pair = pa.RecordBatch.from_arrays([a, b], names=["c0", "c1"])
        same = run(pair, ["c0 IS NOT DISTINCT FROM c1"]).column(0) if len(a) else pa.array([], pa.bool_())
        return np.asarray(same.to_numpy(zero_copy_only=False), dtype=np.bool_)
    equal = pc.equal(a, b)
    if pa.types.is_floating(a.type):
        equal = pc.or_(equal, pc.and_(pc.is_nan(a), pc.is_nan(b)))
    if equal.null_count:
        equal = pc.if_else(pc.is_null(equal), pc.and_(pc.is_null(a), pc.is_null(b)), equal)
    return np.asarray(equal.to_numpy(zero_copy_only=False), dtype=np.bool_)


def row_values(row: pa.RecordBatch) -> tuple[Any, ...]:
    """Returns a row as a key of a dict, in which NaN equals NaN."""
    return tuple(_hashable(plain_values(column)[0]) for column in row.columns)


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(_hashable(v) for v in value.values())
    if isinstance(value, list):
        return ("list", *(_hashable(v) for v in value))
    return "NaN" if isinstance(value, float) and value != value else value


def plain_values(column: pa.Array) -> list[Any]:
    """Returns Python values; times and dates are numbers, since Python's own end with the year 9999."""
    if pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type):
        column = column.view(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    values: list[Any] = column.to_pylist()
    return values


def mix(left: Ints, right: Ints, salt: int) -> Ints:
    """Makes a non-negative 62-bit id from two ids. Equal pairs give equal ids, different pairs give different ones
    except by chance."""
    a = left.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
        (salt * 0xD1B54A32D192ED03 + 1) & 0xFFFFFFFFFFFFFFFF
    )
    a ^= a >> np.uint64(32)
    a = (a + right.astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
    a ^= a >> np.uint64(29)
    a *= np.uint64(0x94D049BB133111EB)
    a ^= a >> np.uint64(32)
    return (a >> np.uint64(2)).astype(np.int64)
