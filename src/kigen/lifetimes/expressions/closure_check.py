"""Compares a compiled expression with DuckDB on rows of awkward values before anybody relies on it.

Rows hold NULLs, zeros, the ends of each type's range, NaN and infinity, and the constants of the expression with their
neighbours. The order is random but fixed, so that every process decides alike. Cost: some 5 ms per expression, once.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from kigen.lifetimes.expressions.closures import SmallExpression
from kigen.lifetimes.expressions.values import Unsure

ROWS = 64
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_TEXT = re.compile(r"'((?:[^']|'')*)'")
_INTS = [0, 1, -1, 2, 3, 7, -7, 10, 100, 1 << 31, (1 << 53) + 1, 1 << 62, (1 << 63) - 1, -(1 << 63)]
_DOUBLES = [0.0, -0.0, 1.0, 0.5, -3.25, 20.0, 1e15, 1.7e308, -1.7e308, 5e-324, math.nan, math.inf, -math.inf]
_TEXTS = ["", "a", "b", "A", "ab", "ä", "a ", "0"]
_TIMES = [0, 1, -1, 1_700_000_000_000_000, 4_000_000_000_000_000]

Run = Callable[[pa.RecordBatch, list[str]], pa.RecordBatch]


def agrees(small: SmallExpression, sql: str, columns: pa.RecordBatch, run: Run) -> bool:
    """Whether each answer of the closure is DuckDB's. `columns` gives the types, `run` asks DuckDB."""
    rows = awkward_rows(columns.schema, sql)
    theirs = run(rows, [f"TRY({sql})"]).column(0).cast(small.type.arrow)
    return all(_same_row(small, rows.slice(i, 1), theirs.slice(i, 1)) for i in range(ROWS))


def _same_row(small: SmallExpression, row: pa.RecordBatch, theirs: pa.Array) -> bool:
    try:
        mine = small(row)
    except Unsure:
        return True
    return bool(mine.type == theirs.type and same_value(_plain(mine), _plain(theirs)))


def same_value(mine: Any, theirs: Any) -> bool:
    """Equal as SQL shows them: NULL equals NULL, NaN equals NaN, 0.0 differs from -0.0."""
    if isinstance(mine, float) and isinstance(theirs, float):
        return repr(mine) == repr(theirs)
    return type(mine) is type(theirs) and mine == theirs


def _plain(array: pa.Array) -> Any:
    return (array.view(pa.int64()) if pa.types.is_timestamp(array.type) else array)[0].as_py()


def awkward_rows(schema: pa.Schema, sql: str, seed: int = 0) -> pa.RecordBatch:
    draw = random.Random(seed)
    numbers = [text for text in _NUMBER.findall(sql) if len(text) < 16]
    ints = _INTS + [int(float(text)) + step for text in numbers for step in (-1, 0, 1)]
    doubles = _DOUBLES + [sign * float(text) + step for text in numbers for step in (0.0, 0.25) for sign in (-1, 1)]
    texts = _TEXTS + [text.replace("''", "'") for text in _TEXT.findall(sql)]
    arrays = []
    for field in schema:
        kind = field.type
        if pa.types.is_boolean(kind):
            values: list[Any] = [True, False]
        elif pa.types.is_integer(kind):
            values = ints
        elif pa.types.is_floating(kind):
            values = doubles
        elif pa.types.is_timestamp(kind):
            values = _TIMES
        elif pa.types.is_string(kind):
            values = texts
        else:  # closures do not read it
            arrays.append(pa.nulls(ROWS, kind))
            continue
        picked = [None if draw.random() < 0.15 else draw.choice(values) for _ in range(ROWS)]
        arrays.append(
            pa.array(picked, pa.int64()).view(kind) if pa.types.is_timestamp(kind) else pa.array(picked, kind)
        )
    return pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(schema))])
