"""Compares record ends found by quote parity with the parser itself, on difficult text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kigen.connectors.csv.records import is_open, record_ends, record_starts

hostile = st.lists(
    st.sampled_from([b"a", b'"', b'""', b",", b"\n", b"\r\n", b"\r", b'"x\ny"', "é".encode()]), max_size=30
).map(b"".join)


def parsed_rows(data: bytes) -> int:
    """Returns how many records of any width the parser finds."""
    wrong = 0

    def count(row: object) -> str:
        nonlocal wrong
        wrong += 1
        return "skip"

    if not data.strip(b"\r\n"):
        return 0
    table = pcsv.read_csv(
        pa.BufferReader(data),
        read_options=pcsv.ReadOptions(column_names=["x", "y"], use_threads=False, block_size=len(data) + 1),
        parse_options=pcsv.ParseOptions(newlines_in_values=True, invalid_row_handler=count),
    )
    return int(table.num_rows) + wrong


@settings(max_examples=400, deadline=None)
@given(hostile)
def test_cutting_at_any_record_end_keeps_the_number_of_records(data: bytes) -> None:
    ends = record_ends(data)
    whole = parsed_rows(data)
    assert len(record_starts(data)) == whole
    for end in ends.tolist():
        assert data[end - 1 : end] == b"\n"
        assert parsed_rows(data[:end]) + parsed_rows(data[end:]) == whole


@settings(max_examples=200, deadline=None)
@given(hostile, hostile)
def test_ends_do_not_depend_on_what_follows(first: bytes, second: bytes) -> None:
    ends = record_ends(first)
    both = record_ends(first + second)
    assert np.array_equal(ends, both[both <= len(first)])


@pytest.mark.parametrize(
    ("data", "ends", "inside"),
    [
        (b"", [], False),
        (b"1,2\n3", [4], False),
        (b'"a\nb"\nc\n', [6, 8], False),
        (b'"a""\n"\n', [7], False),
        (b'5" pipe\n7" pipe\n', [8, 16], False),  # quotes inside unquoted fields are ordinary
        (b'5" pipe,"\n"\nx\n', [12, 14], False),
        (b'"a\nb\n', [], True),
        (b'x\n"a\nb\n', [2], True),
        (b"a\r\n\r\nb", [3, 5], False),
    ],
)
def test_examples(data: bytes, ends: list[int], inside: bool) -> None:
    assert (record_ends(data).tolist(), is_open(data)) == (ends, inside)
