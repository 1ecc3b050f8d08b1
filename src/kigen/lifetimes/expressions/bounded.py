"""Limits the results of expressions: a value that is too large, or too many large values at once, raises an error
before memory runs out.

Expressions that can produce large results from small inputs are evaluated in pieces, so that the total is known before
all of it is in memory. Other expressions only pay for a look at the size of their results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

LARGEST_VALUE = 64 << 20  # bytes
LARGEST_STEP = 1 << 30  # bytes of all results of one step of an operator
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999  # years 1 to 9999
_PIECE = 2048  # rows of one DuckDB vector
_GROWING = re.compile(r"\b(repeat|lpad|rpad|replace|regexp_replace|format|printf)\b", re.IGNORECASE)


class TooLarge(ValueError):
    """A result is too large for any row."""


def table_of(relation: Any, sqls: Sequence[str]) -> pa.Table:
    """Returns the result of a DuckDB relation. Raises TooLarge."""
    if not any(_GROWING.search(sql) for sql in sqls):
        table = relation.to_arrow_table()
        _check_values(table)
        return table
    reader = relation.to_arrow_reader(_PIECE)
    try:
        batches, size = [], 0
        for batch in reader:
            size += batch.nbytes
            if size > LARGEST_STEP:
                raise TooLarge(f"the results of one step take more than {LARGEST_STEP:,} bytes: make the texts shorter")
            batches.append(batch)
    finally:
        reader.close()
    table = pa.Table.from_batches(batches, reader.schema)
    _check_values(table)
    return table


def check_times(times: pa.Array) -> None:
    """Raises TooLarge for a time whose year does not have four digits."""
    found = pc.min_max(times.cast(pa.int64())).as_py()
    if found["min"] is not None and (found["min"] < FIRST_US or found["max"] > LAST_US):
        raise TooLarge("a time before the year 1 or after 9999 is no TIMESTAMP")


def _check_values(table: pa.Table) -> None:
    for column in table.columns:
        if column.nbytes > LARGEST_VALUE and pa.types.is_string(column.type):
            longest = pc.max(pc.binary_length(column)).as_py() or 0
            if longest > LARGEST_VALUE:
                raise TooLarge(f"a value has {longest:,} bytes, but a row holds at most {LARGEST_VALUE:,}")
