"""Tests a gallery of bad rows: by default the run ends and names file, line, field, text and type; under ON ERROR SKIP
the rows are counted."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from kigen.connectors import InputError, open_source

GOOD = b"1970-01-01T00:00:01Z,ok,1,1.5,true"
GALLERY = [
    (b"1970-01-01T00:00:00,a,1,1,true", "ts", ["TIMESTAMP required", "'1970-01-01T00:00:00'", "with Z or an offset"]),
    (b"yesterday,a,1,1,true", "ts", ["TIMESTAMP", "'yesterday'"]),
    (b"1970-01-01T00:00:00.1234567Z,a,1,1,true", "ts", ["TIMESTAMP"]),
    (b"1970-02-30T00:00:00Z,a,1,1,true", "ts", ["TIMESTAMP"]),
    (b",a,1,1,true", "ts", ["timestamp is required", "empty field"]),
    (b'"",a,1,1,true', "ts", ["TIMESTAMP required, found ''"]),
    (b"1970-01-01T00:00:00Z,a,1.5,1,true", "n", ["BIGINT required, found '1.5'", "whole number"]),
    (b"1970-01-01T00:00:00Z,a,9223372036854775808,1,true", "n", ["BIGINT"]),
    (b'1970-01-01T00:00:00Z,a,"",1,true', "n", ["BIGINT required, found ''"]),
    (b"1970-01-01T00:00:00Z,a,1,1_0,true", "x", ["DOUBLE required, found '1_0'"]),
    (b"1970-01-01T00:00:00Z,a,1,1,yes", "ok", ["BOOLEAN required, found 'yes'", "true or false"]),
    (b"1970-01-01T00:00:00Z,\xff\xfe,1,1,true", "name", ["STRING required", "UTF-8"]),
    (b"1970-01-01T00:00:00Z,a,\xff,1,true", "n", ["BIGINT required"]),
    (b"1970-01-01T00:00:00Z,a,x,y,z", "n", ["BIGINT required, found 'x'"]),  # the leftmost fault counts
    (b"1970-01-01T00:00:00Z,a,1,1", None, ["5 fields required, found 4"]),
    (b"1970-01-01T00:00:00Z,a,1,1,true,", None, ["5 fields required, found 6"]),
    (b"\xff", None, ["5 fields required, found 1"]),
    (b" ", None, ["5 fields required, found 1"]),
]


def source_of(tmp_path: Path, make_stream: Any, body: bytes, skip: bool) -> Any:
    (tmp_path / "in.csv").write_bytes(b"ts,name,n,x,ok\n" + body)
    columns = "ts TIMESTAMP, name STRING, n BIGINT, x DOUBLE, ok BOOLEAN"
    return open_source(make_stream("csv", columns, path="in.csv", skip=skip), str(tmp_path), True, None)


@pytest.mark.parametrize(("row", "name", "says"), GALLERY)
@pytest.mark.parametrize(
    "before", [b"", GOOD + b"\n", b'1970-01-01T00:00:00Z,"two\n\nlines, ""x""",,,\r\n\r\n' + GOOD + b"\n"]
)
def test_a_bad_row_ends_the_run(
    tmp_path: Path, make_stream: Any, row: bytes, name: str | None, says: list[str], before: bytes
) -> None:
    source = source_of(tmp_path, make_stream, before + row + b"\n" + GOOD, skip=False)
    with pytest.raises(InputError) as caught:
        source.read(source.advance(source.initial(), 100))
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.file, error.line, error.field) == (str(tmp_path / "in.csv"), 2 + before.count(b"\n"), name)
    assert str(error) == str(caught.value)
    for words in says:
        assert words in str(error)


@pytest.mark.parametrize(("row", "name", "says"), GALLERY)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_bad_row_is_skipped_and_counted(
    tmp_path: Path, make_stream: Any, read_all: Any, row: bytes, name: str | None, says: list[str], size: int
) -> None:
    source = source_of(tmp_path, make_stream, b"\n".join([row, GOOD, row, GOOD, row]), skip=True)
    rows = read_all(source, [size])
    assert (rows.skipped, rows.table.num_rows) == (3, 2)
    assert rows.table["c1"].to_pylist() == ["ok", "ok"]
    assert [f"in.csv:{line}:" in text for line, text in zip((2, 4, 6), rows.errors, strict=True)] == [True] * 3


def test_only_the_first_few_are_kept(tmp_path: Path, make_stream: Any, read_all: Any) -> None:
    rows = read_all(source_of(tmp_path, make_stream, b"x,x,x,x,x\n" * 3000, skip=True))
    assert (rows.skipped, len(rows.errors), rows.table.num_rows) == (3000, 5, 0)


@pytest.mark.parametrize("size", [1, 100])
def test_a_quote_that_is_never_closed(tmp_path: Path, make_stream: Any, read_all: Any, size: int) -> None:
    body = GOOD + b'\n1970-01-01T00:00:00Z,"a,1,1,true\n' + GOOD + b"\n"
    rows = read_all(source_of(tmp_path, make_stream, body, skip=True), [size])
    assert (rows.skipped, rows.table.num_rows) == (1, 1)
    with pytest.raises(InputError, match=r"in\.csv:3: a quoted field is not closed"):
        read_all(source_of(tmp_path, make_stream, body, skip=False), [size])


def test_a_quote_inside_an_unquoted_field_is_text(tmp_path: Path, make_stream: Any, read_all: Any) -> None:
    body = b'1970-01-01T00:00:00Z,5" pipe,1,1,true\n1970-01-01T00:00:00Z,"7"" pipe\n",2,1,true\n'
    for size in (1, 100):
        table = read_all(source_of(tmp_path, make_stream, body, skip=False), [size]).table
        assert table["c1"].to_pylist() == ['5" pipe', '7" pipe\n']
