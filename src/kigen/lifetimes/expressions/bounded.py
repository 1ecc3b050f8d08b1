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
FIRST_DAY, LAST_DAY = FIRST_US // 86_400_000_000, LAST_US // 86_400_000_000
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


def check_times(values: pa.Array) -> None:
    """Raises TooLarge for a time or date whose year does not have four digits, also in lists and structs."""
    kind = values.type
    if pa.types.is_list(kind):
        check_times(values.flatten())
    elif pa.types.is_struct(kind):
        for part in values.flatten():
            check_times(part)
    elif pa.types.is_timestamp(kind):
        if beyond(values.cast(pa.int64()), FIRST_US, LAST_US):
            raise TooLarge("a time before the year 1 or after 9999 is no TIMESTAMP")
    elif pa.types.is_date32(kind) and beyond(values.cast(pa.int32()), FIRST_DAY, LAST_DAY):
        raise TooLarge("a day before the year 1 or after 9999 is no DATE")


def beyond(numbers: pa.Array, first: int, last: int) -> bool:
    """Returns whether a number lies before `first` or after `last`."""
    found = pc.min_max(numbers).as_py()
    return found["min"] is not None and bool(found["min"] < first or found["max"] > last)


def _check_values(table: pa.Table) -> None:
    for column in table.columns:
        if column.nbytes > LARGEST_VALUE and (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            longest = pc.max(pc.binary_length(column)).as_py() or 0
            if longest > LARGEST_VALUE:
                raise TooLarge(f"a value has {longest:,} bytes, but a row holds at most {LARGEST_VALUE:,}")
