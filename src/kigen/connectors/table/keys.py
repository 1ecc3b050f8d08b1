"""Checks the KEY of a table: no two rows agree in its columns, and none of them is NULL."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors.source_base import InputError
from kigen.plan.logical import SourceStream


def check_key(stream: SourceStream, table: pa.Table) -> None:
    """Raises InputError if two rows of a table have one key, or if a key is NULL."""
    if not stream.key:
        return
    columns = [f"c{i}" for i in stream.key]
    names = ", ".join(stream.schema[i].name for i in stream.key)
    if any(table.column(name).null_count for name in columns):
        raise InputError(f"table '{stream.name}': a row has NULL in its KEY ({names})")
    counts = table.group_by(columns).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts.column("count_all"), 1))
    if twice.num_rows:
        found = ", ".join(str(twice.column(name)[0].as_py()) for name in columns)
        raise InputError(
            f"table '{stream.name}': {twice.column('count_all')[0]} rows have the KEY ({names}) = ({found}); "
            "remove all but one, or leave KEY out"
        )
