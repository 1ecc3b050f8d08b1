"""Hashes are those of DuckDB, however they are computed: saved states depend on them."""

from __future__ import annotations

import datetime
import math
import random
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from kigen.lifetimes.keys import column_hashes as module
from kigen.lifetimes.keys.column_hashes import column_hashes

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.float64(), [0.0, -0.0, 1.5, -2.25, math.nan, -math.nan, math.inf, -math.inf, 1e300, 5e-324, None]),
    (pa.bool_(), [True, False, None]),
    (pa.string(), ["", "a", "room1", "ä€", "x" * 12, "x" * 13, "x" * 1000, "a\x00b", None]),
    (pa.date32(), [datetime.date(2026, 1, 2), datetime.date(1900, 1, 1), None]),
    (pa.decimal128(18, 3), [Decimal("1.500"), Decimal("-0.001"), None]),
]


def expected(column: pa.Array) -> list[int]:
    table = pa.table({"c0": column})
    return [row[0] for row in duckdb.from_arrow(table).project("hash(c0)").fetchall()]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
@pytest.mark.parametrize("rows", [1, 3, 64, 65, 500])
def test_hashes_are_those_of_duckdb(kind: pa.DataType, values: list[Any], rows: int) -> None:
    rng = random.Random(rows)
    for _ in range(3):  # the second time texts are known
        column = pa.array([rng.choice(values) for _ in range(rows)], kind)
        found = column_hashes(pa.record_batch([column], names=["c0"]), [0])[0]
        assert found.view(np.uint64).tolist() == expected(column)


def test_slices_of_a_column() -> None:
    column = pa.array([None, 1.0, -0.0, None, 2.5])
    found = column_hashes(pa.record_batch([column[2:]], names=["c0"]), [0])[0]
    assert found.view(np.uint64).tolist() == expected(column[2:])


def test_few_known_texts_need_no_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch(
        [pa.array(["a known text", "another", None]), pa.array([1.0, None, 2.0])], names=["c0", "c1"]
    )
    first = column_hashes(batch, [0, 1])
    monkeypatch.setattr(module, "run", None)
    again = column_hashes(batch, [0, 1])
    assert all(np.array_equal(first[k], again[k]) for k in (0, 1))
