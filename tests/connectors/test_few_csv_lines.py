"""A few lines of CSV, written value by value, are the same as those written column by column."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kigen.connectors.csv import lines
from kigen.connectors.csv.few_lines import few_lines

DOUBLES = [0.0, -0.0, 1.0, -3.0, 0.1, 1e15, 1e16, 123456789012345.6, 1e-5, 9.5e-6, 1e-7, 5e-324, 1.7e308, 1e100, 1e10]
TIMES = [0, -1, 1, -62_135_596_800_000_000, 253_402_300_799_999_999, 1_700_000_000_123_456, 999_999]


def rendered(columns: list[pa.ChunkedArray]) -> bytes:
    return b"".join(bytes(part) for part in lines.csv_lines(columns))


@pytest.mark.parametrize("seed", range(40))
def test_equal_to_the_lines_of_columns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 12))

    def column(values: list[Any], kind: pa.DataType) -> pa.ChunkedArray:
        picked = [None if rng.random() < 0.15 else values[int(rng.integers(len(values)))] for _ in range(count)]
        cut = int(rng.integers(0, count + 1))
        return pa.chunked_array([pa.array(picked[:cut], kind), pa.array(picked[cut:], kind)], kind)

    doubles = [*DOUBLES, math.nan, math.inf, -math.inf, *(rng.normal(0, 1, 20) * 10.0 ** rng.integers(-300, 300, 20))]
    columns = [
        column(["", "a", "b,c", 'd"e', "f\ng", "h\r", "ü", " "], pa.string()),
        column([float(value) for value in doubles], pa.float64()),
        column([0, 1, -1, 2**63 - 1, -(2**63)], pa.int64()),
        column([True, False], pa.bool_()),
        column(
            [*TIMES, -62_167_219_200_000_000 - seed % 2, 253_402_300_800_000_000] if seed % 3 else TIMES, pa.int64()
        ),
        column(TIMES, pa.int64()),
    ]
    columns[4:] = [times.cast(pa.timestamp("us")) for times in columns[4:]]
    quick = rendered(columns)
    monkeypatch.setattr(lines, "MOST_ROWS", -1)
    assert quick == rendered(columns)


def test_times_without_a_four_digit_year_are_left_to_columns() -> None:
    assert few_lines([pa.array([-62_167_219_200_000_000], pa.timestamp("us"))]) is None
