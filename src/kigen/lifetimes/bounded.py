"""Results of expressions, within bounds: one value that is too large, or too many large ones at once, end in an error
before memory does.

Expressions that can make much out of little are taken in pieces, so that the sum is known before all of it is there.
Cost: nothing for other expressions but a look at the size of what came.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

LARGEST_VALUE = 64 << 20  # bytes
LARGEST_STEP = 1 << 30  # of all results of one step of an operator
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999  # years 1 to 9999
_PIECE = 2048  # rows: a vector of DuckDB's
_GROWING = re.compile(r"\b(repeat|lpad|rpad|replace|regexp_replace|format|printf)\b", re.IGNORECASE)


class TooLarge(ValueError):
    """A result that no row can hold."""


def table_of(relation: Any, sqls: Sequence[str]) -> pa.Table:
    """What a DuckDB relation gives. Raises TooLarge."""
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
    """Raises TooLarge for a time that could not be written with a year of four digits."""
    found = pc.min_max(times.cast(pa.int64())).as_py()
    if found["min"] is not None and (found["min"] < FIRST_US or found["max"] > LAST_US):
        raise TooLarge("a time before the year 1 or after 9999: no TIMESTAMP can be that")


def _check_values(table: pa.Table) -> None:
    for column in table.columns:
        if column.nbytes > LARGEST_VALUE and pa.types.is_string(column.type):
            longest = pc.max(pc.binary_length(column)).as_py() or 0
            if longest > LARGEST_VALUE:
                raise TooLarge(f"a value of {longest:,} bytes: a row holds at most {LARGEST_VALUE:,}")
