"""Rows of columns in several parts, compared with those of the parts put together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kigen.lifetimes.keys import column_parts


@pytest.mark.parametrize("small", [0, 1 << 13])
@pytest.mark.parametrize("sizes", [[1], [5], [0, 3], [700, 40, 9, 1]])
@pytest.mark.parametrize("how", ["none", "one", "ordered", "mixed", "many"])
def test_rows_are_those_of_the_whole(how: str, sizes: list[int], small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_parts, "_SMALL", small)
    rng, count = np.random.default_rng(len(sizes)), sum(sizes)
    numbers = [None if rng.random() < 0.1 else int(n) for n in rng.integers(0, 99, count)]
    whole = pa.table({"c0": pa.array(numbers, pa.int64()), "c1": pa.array([f"text {n}" for n in range(count)])})
    whole = whole.combine_chunks()
    parts, first = [], 0
    for size in sizes:
        part = whole.slice(first, size)
        batches = part.to_batches()
        parts.append(batches[0] if batches else pa.RecordBatch.from_pylist([], schema=whole.schema))
        first += size
    wanted = {"none": 0, "one": 1, "ordered": 3, "mixed": 3, "many": 4 * count}[how]
    rows = rng.integers(0, count, wanted)
    rows = np.sort(rows) if how == "ordered" else rows
    found = column_parts.take_rows(parts, rows)
    assert found.to_pydict() == whole.take(pa.array(rows)).to_pydict()
    assert found.schema == whole.schema
