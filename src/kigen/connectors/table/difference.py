"""Finds what a refresh of a table changes: the rows that are only in the old version, and those only in the new one.

Rows are compared as bags: of two equal rows one may die. NULL equals NULL, NaN equals NaN. Cost: two hash joins of
DuckDB over the two versions.
"""

from __future__ import annotations

import pyarrow as pa

from kigen.lifetimes.windows.table_rows import ROW
from kigen.plan.expressions.locked_duckdb import connect


def difference(old: pa.Table, new: pa.Table, columns: list[str]) -> tuple[pa.Array, pa.Table]:
    """Returns the numbers of the rows of `old` that die, and the rows of `new` that are born, both in their order."""
    place = "_place"
    listed = ", ".join(columns)
    same = " AND ".join(f"a.{c} IS NOT DISTINCT FROM b.{c}" for c in (*columns, "_nth"))
    with connect() as duck:
        for name, table, number in (("old", old, ROW), ("new", new, place)):
            numbers = old.column(ROW) if name == "old" else pa.array(range(new.num_rows), pa.int64())
            duck.register(f"given_{name}", table.select(columns).append_column(number, numbers))
            nth = f"row_number() OVER (PARTITION BY {listed} ORDER BY {number}) AS _nth"
            duck.execute(f"CREATE TABLE {name} AS SELECT *, {nth} FROM given_{name}")
        only = "SELECT a.{} AS n FROM {} a WHERE NOT EXISTS (SELECT 1 FROM {} b WHERE {}) ORDER BY 1"
        dead = duck.sql(only.format(ROW, "old", "new", same)).to_arrow_table().column("n")
        born = duck.sql(only.format(place, "new", "old", same)).to_arrow_table().column("n")
    return dead.combine_chunks(), new.select(columns).take(born)
