"""Judges results of `kigen bench joins` with DuckDB: at some instants, compares rows that are alive with SQL over the
tuples alive.

Rows are compared as bags, in the order of their columns: doubles to 1e-9, everything else exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from kigen_lab.bench.joins.app import JoinQuery, bid_time

_TOLERANCE = 1e-9


def sample_instants(bids: int, count: int = 5) -> list[int]:
    """Returns evenly spread times of bids. The last bid is among them."""
    return sorted({bid_time(bids * i // count - 1) for i in range(1, count + 1) if bids * i // count})


class Judge:
    """A DuckDB connection that knows the input."""

    def __init__(self, bids: str, side: str | None, spill: Path | None = None, range_us: int | None = None) -> None:
        """Takes bids and side as DuckDB names relations: `'folder/*.parquet'`, or the name of a registered table.

        `range_us` is the window over bids, None if it is unbounded.
        """
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        if spill is not None:
            self._connection.execute(f"SET temp_directory = '{spill}'")
        self._bids, self._side, self._range_us = bids, side, range_us

    def register(self, name: str, table: pa.Table) -> None:
        self._connection.register(name, table)

    def close(self) -> None:
        self._connection.close()

    def disagreements(self, query: JoinQuery, lines: str, instants: Sequence[int]) -> list[str]:
        """Returns a sentence for each instant at which rows differ.

        `lines` has the result's columns, and `_from` and `_to` in microseconds.
        """
        chosen = ", ".join(
            f"epoch_us({name}) AS {name}" if kind == "TIMESTAMP" else name for name, kind in query.columns
        )
        found = []
        for at in instants:
            expected = self._sorted(f"{self._alive(at)} SELECT {chosen} FROM ({query.sql})")
            got = self._sorted(f"SELECT {chosen} FROM ({lines}) WHERE _from <= {at} AND (_to IS NULL OR _to > {at})")
            if not same_rows(expected, got):
                counts = f"{got.num_rows:,} rows, DuckDB has {expected.num_rows:,}"
                found.append(f"{query.name} at {at}: {counts}; first: {_first(got, expected)}")
        return found

    def _alive(self, at: int) -> str:
        since = "" if self._range_us is None else f" AND epoch_us(ts) > {at - self._range_us}"
        parts = [f"bids_all AS (SELECT * FROM {self._bids} WHERE epoch_us(ts) <= {at}{since})"]
        parts += [f"bids_now AS (SELECT * FROM {self._bids} WHERE epoch_us(ts) = {at})"]
        if self._side is not None:
            parts += [f"side_all AS (SELECT * FROM {self._side} WHERE epoch_us(ts) <= {at})"]
        return f"WITH {', '.join(parts)}"

    def _sorted(self, sql: str) -> pa.Table:
        return self._connection.sql(f"SELECT * FROM ({sql}) ORDER BY ALL").to_arrow_table()


def lines_of_csv(path: Path, query: JoinQuery) -> str:
    """Returns a SELECT that reads what `--output` wrote."""
    kinds = {**{name: "TIMESTAMPTZ" if kind == "TIMESTAMP" else kind for name, kind in query.columns}}
    kinds |= {"_from": "TIMESTAMPTZ", "_to": "TIMESTAMPTZ"}
    given = ", ".join(f"'{name}': '{kind}'" for name, kind in kinds.items())
    times = "epoch_us(_from) AS _from, epoch_us(_to) AS _to"
    return (
        f"SELECT * REPLACE ({times}) FROM read_csv('{path}', header = true, delim = ',', quote = '\"', columns = "
        f"{{{given}}})"
    )


def same_rows(expected: pa.Table, got: pa.Table) -> bool:
    """Compares two sorted lists of rows."""
    if expected.num_rows != got.num_rows or expected.num_columns != got.num_columns:
        return False
    return all(_same(a, b) for a, b in zip(expected.columns, got.columns, strict=True))


def _same(a: pa.ChunkedArray, b: pa.ChunkedArray) -> bool:
    if pa.types.is_floating(a.type) or pa.types.is_floating(b.type):
        x, y = (np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False)) for column in (a, b))
        return bool(np.isclose(x, y, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True).all())
    return bool(a.cast(b.type).equals(b))


def _first(got: pa.Table, expected: pa.Table) -> str:
    rows = [
        list(zip(*(column.to_pylist() for column in table.slice(0, 1_000).columns), strict=True))
        for table in (got, expected)
    ]
    at = next((i for i, (a, b) in enumerate(zip(*rows, strict=False)) if a != b), min(len(r) for r in rows))
    shown = [str(r[at]) if at < len(r) else "nothing" for r in rows]
    return f"{shown[0]}, DuckDB {shown[1]}"
