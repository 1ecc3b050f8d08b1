"""Checks the lines of CSV that results are written as against a slow, obvious reference, value by value."""

from __future__ import annotations

import csv
import io
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kigen.connectors.csv.lines import csv_lines

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999  # years 1 to 9999, as datetime has them

strings = st.text(st.sampled_from("a ,\"\r\n'\t;é\\#\0"), max_size=6) | st.text(max_size=4)
doubles = st.floats() | st.integers(-(10**17), 10**17).map(float) | st.floats(1e-8, 1e-3) | st.floats(1e9, 1e17)
times = st.integers(_FIRST_US, _LAST_US) | st.integers(1_700_000_000_000_000, 1_700_000_100_000_000)
rows = st.tuples(
    st.none() | strings,
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | doubles,
    st.none() | st.booleans(),
    st.none() | times,
    st.none() | times,
)
TYPES = (pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("us"), pa.timestamp("us"))


def written(table: list[tuple[Any, ...]], chunks: int = 1) -> bytes:
    size = -(-len(table) // chunks) or 1
    parts = [table[i : i + size] for i in range(0, len(table), size)] or [[]]
    columns = [
        pa.chunked_array([pa.array([row[i] for row in part], kind) for part in parts], kind)
        for i, kind in enumerate(TYPES)
    ]
    return b"".join(csv_lines(columns))


def field(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return ""
    if kind == pa.string():
        special = not value or any(c in value for c in ',"\r\n')
        return '"' + value.replace('"', '""') + '"' if special else str(value)
    if kind == pa.float64():
        return double(value)
    if kind == pa.timestamp("us"):
        return (_EPOCH + timedelta(microseconds=value)).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")
    return str(value).lower()


def double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    text = repr(value).replace("e-0", "e-")
    if 1e-5 <= abs(value) < 1e-4:
        digits = text.removesuffix("e-5").replace(".", "").lstrip("-")
        return ("-" if value < 0 else "") + "0.0000" + digits
    return text


@settings(max_examples=300, deadline=None)
@given(st.lists(rows, max_size=12), st.integers(1, 4))
def test_lines_are_those_of_the_reference(table: list[tuple[Any, ...]], chunks: int) -> None:
    expected = "".join(",".join(map(field, row, TYPES)) + "\n" for row in table)
    assert written(table, chunks) == expected.encode()


@settings(max_examples=100, deadline=None)
@given(st.lists(rows, min_size=1, max_size=8))
def test_a_csv_reader_gets_the_values_back(table: list[tuple[Any, ...]]) -> None:
    text = written(table).decode()
    found = list(csv.reader(io.StringIO(text, newline="")))
    assert [row[0] for row in found] == [row[0] or "" for row in table]
    for row, (_, whole, number, *_rest) in zip(found, table, strict=True):
        assert row[1] == ("" if whole is None else str(whole))
        if number is None:
            assert row[2] == ""
        else:
            assert float(row[2]) == number or math.isnan(number)


@pytest.mark.parametrize(
    ("time_us", "text"),
    [
        (253_402_300_800_000_000, "+10000-01-01T00:00:00.000000Z"),
        (-62_167_219_200_000_000, "0000-01-01T00:00:00.000000Z"),
        (-62_167_219_200_000_001, "-0001-12-31T23:59:59.999999Z"),
        (-760_206_902_400_000_000, "-22120-01-02T00:00:00.000000Z"),
    ],
)
def test_years_that_four_digits_cannot_hold_have_a_sign(time_us: int, text: str) -> None:
    assert written([(None, 1, None, None, 0, time_us)]) == f",1,,,1970-01-01T00:00:00.000000Z,{text}\n".encode()


def test_more_rows_than_one_batch_of_lines_holds() -> None:
    table = [("x" if i % 7 else '"', i, i / 4, None, i, None if i % 3 else i) for i in range(150_000)]
    lines = written(table, 2).decode().split("\n")
    assert len(lines) == 150_001
    for i in (0, 7, 65_535, 65_536, 131_072, 149_999):
        assert lines[i] == ",".join(map(field, table[i], TYPES))


def test_a_slice_of_a_table_is_written_from_its_own_start() -> None:
    columns = [pa.chunked_array([pa.array(["a,b", "", "c"])]).slice(1), pa.chunked_array([pa.array([1, 2, 3], "timestamp[us]")]).slice(1)]  # fmt: skip
    assert b"".join(csv_lines(columns)) == b'"",1970-01-01T00:00:00.000002Z\nc,1970-01-01T00:00:00.000003Z\n'
