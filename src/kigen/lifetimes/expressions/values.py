"""Values of expressions over few rows, as numpy arrays with the NULLs apart, and how columns and constants become them.

Invariant: what lies under a NULL is an ordinary value of the type, so that operations need not look at NULLs first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.plan.types import Type

BOOL, INT, DOUBLE, TEXT, TIME = Type.BOOLEAN, Type.BIGINT, Type.DOUBLE, Type.STRING, Type.TIMESTAMP
_NUMPY = {BOOL: np.bool_, INT: np.int64, DOUBLE: np.float64, TIME: np.int64}
TYPES = {pa.bool_(): BOOL, pa.int64(): INT, pa.float64(): DOUBLE, pa.string(): TEXT, pa.timestamp("us"): TIME}

Array = Any  # a numpy array of one of the types above; for text, an Arrow array without NULLs


class Unsure(Exception):
    """DuckDB has to answer: the closure might not give the same."""


class NotTaken(Exception):
    """An expression that is not compiled."""


@dataclass(frozen=True)
class Values:
    """One value per row: `data`, and where it is not NULL; `valid` None: everywhere."""

    data: Array
    valid: Array | None = None


Closure = Callable[[pa.RecordBatch], Values]


@dataclass(frozen=True)
class Typed:
    """A closure, the type of its values, and, for a constant, its value."""

    run: Closure
    type: Type
    constant: Any = None


def reader(place: int, kind: Type) -> Closure:
    def read(columns: pa.RecordBatch) -> Values:
        column = columns.column(place)
        valid = None
        if column.null_count:
            valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
            column = pc.fill_null(column, _FILLING[kind])
        if kind is TEXT:
            return Values(column, valid)
        if kind is TIME:
            column = column.view(pa.int64())
        return Values(column.to_numpy(zero_copy_only=False), valid)

    return read


_FILLING: dict[Type, Any] = {BOOL: False, INT: 0, DOUBLE: 0.0, TEXT: "", TIME: pa.scalar(0, pa.timestamp("us"))}
CONSTANTS = {
    "BOOLEAN": BOOL,
    "TINYINT": INT,
    "SMALLINT": INT,
    "INTEGER": INT,
    "BIGINT": INT,
    "DOUBLE": DOUBLE,
    "VARCHAR": TEXT,
    "TIMESTAMP": TIME,
}


@dataclass(frozen=True)
class Decimal:
    """A constant with a decimal point: exact in DuckDB, unless it meets a DOUBLE."""

    value: float


def fixed(value: Any, kind: Type, decimal: bool = False) -> Typed:
    if kind is TIME:
        value = pa.scalar(value, pa.timestamp("us")).cast(pa.int64()).as_py()
    if kind is DOUBLE and not math.isfinite(value):
        raise NotTaken("not finite")

    def give(columns: pa.RecordBatch) -> Values:
        if kind is TEXT:
            return Values(pa.array([value] * columns.num_rows, pa.string()))
        return Values(np.full(columns.num_rows, value, dtype=_NUMPY[kind]))

    return Typed(give, kind, Decimal(value) if decimal else value)


def as_arrow(values: Values, kind: Type) -> pa.Array:
    missing = None if values.valid is None else ~values.valid
    if kind is TEXT:
        if missing is None:
            return values.data
        return pc.if_else(pa.array(values.valid), values.data, pa.scalar(None, pa.string()))
    array = pa.array(values.data, mask=missing)
    return array.view(pa.timestamp("us")) if kind is TIME else array


def both(a: Values, b: Values) -> Array | None:
    if a.valid is None or b.valid is None:
        return b.valid if a.valid is None else a.valid
    return a.valid & b.valid


def widened(typed: Typed, wanted: Type) -> Typed:
    """As the wanted type: the same, or BIGINT as DOUBLE."""
    if typed.type is wanted:
        return Typed(typed.run, wanted)
    if typed.type is INT and wanted is DOUBLE:
        run = typed.run

        def widen(columns: pa.RecordBatch) -> Values:
            values = run(columns)
            return Values(values.data.astype(np.float64), values.valid)

        return Typed(widen, DOUBLE)
    raise NotTaken("type")


def numbers(a: Typed, b: Typed) -> tuple[Typed, Typed, Type]:
    """Both as one type, as DuckDB would: a decimal constant stays exact beside a BIGINT, which is not taken."""
    if not {a.type, b.type} <= {INT, DOUBLE}:
        raise NotTaken("not numbers")
    if a.type is INT and b.type is INT:
        return a, b, INT
    for one, other in ((a, b), (b, a)):
        if isinstance(one.constant, Decimal) and other.type is not DOUBLE:
            raise NotTaken("a decimal beside a BIGINT")
    return widened(a, DOUBLE), widened(b, DOUBLE), DOUBLE
