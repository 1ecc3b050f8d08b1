"""Tests the csv source: a file gives the same rows in any pieces; RFC 4180, NULLs, zones, headers, many files."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kigen.connectors import InputError, OptionError, Range, open_source

TEXTS = (
    st.none()
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
    | st.sampled_from(['"', "\n", ",", "\r\n", ""])
)
ROWS = st.lists(
    st.tuples(
        TEXTS,
        st.none() | st.floats(allow_nan=False),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.booleans(),
        st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)),
        TEXTS,
    ),
    max_size=40,
)
COLUMNS = "name STRING, x DOUBLE, n BIGINT, ok BOOLEAN, ts TIMESTAMP, note STRING"


def field(value: Any) -> str:
    """Writes a value as RFC 4180 text: NULL is empty, and every string is quoted."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat() + "Z"
    return '"' + value.replace('"', '""') + '"' if isinstance(value, str) else repr(value)


def write(path: Path, rows: list[tuple[Any, ...]], newline: str = "\n", last: bool = True) -> None:
    lines = ["name,x,n,ok,ts,note"] + [",".join(field(v) for v in row) for row in rows]
    path.write_bytes((newline.join(lines) + (newline if last else "")).encode())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS, st.lists(st.integers(1, 7), min_size=1, max_size=5), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_any_cut_gives_the_rows_that_were_written(
    tmp_path: Path,
    make_stream: Any,
    read_all: Any,
    rows: list[tuple[Any, ...]],
    sizes: list[int],
    newline: str,
    last: bool,
) -> None:
    write(tmp_path / "in.csv", rows, newline, last)
    stream = make_stream("csv", COLUMNS, path="in.csv")
    pieces = read_all(open_source(stream, str(tmp_path), True, None), sizes).table
    assert pieces.equals(read_all(open_source(stream, str(tmp_path), True, None)).table)
    assert [tuple(row.values())[:-1] for row in pieces.to_pylist()] == rows
    assert pieces.schema.types == [
        pa.string(),
        pa.float64(),
        pa.int64(),
        pa.bool_(),
        pa.timestamp("us"),
        pa.string(),
        pa.int64(),
    ]
    assert pieces["_ts"].to_pylist() == pieces["c4"].cast(pa.int64()).to_pylist()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.lists(st.sampled_from(["a", 'b"c', '"q,\n"', "", '""', "é"]), min_size=1, max_size=3),
        min_size=1,
        max_size=15,
    ),
    st.integers(1, 4),
)
def test_wrong_and_right_rows_are_told_apart_in_any_cut(
    tmp_path: Path, make_stream: Any, read_all: Any, lines: list[list[str]], size: int
) -> None:
    text = "ts,a\n" + "".join(",".join(["2026-01-01T00:00:00Z", *fields]) + "\n" for fields in lines)
    (tmp_path / "in.csv").write_text(text)
    stream = make_stream("csv", "ts TIMESTAMP, a STRING", path="in.csv", skip=True)
    whole = read_all(open_source(stream, str(tmp_path), True, None))
    pieces = read_all(open_source(stream, str(tmp_path), True, None), [size])
    assert whole.table.equals(pieces.table)
    assert whole.skipped == pieces.skipped == sum(len(fields) != 1 for fields in lines)
    assert whole.errors == pieces.errors[: len(whole.errors)]


def read_text(
    tmp_path: Path, make_stream: Any, read_all: Any, text: str | bytes, columns: str, **options: Any
) -> list[dict[str, Any]]:
    (tmp_path / "in.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    table = read_all(
        open_source(make_stream("csv", columns, path="in.csv", **options), str(tmp_path), True, None)
    ).table
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_columns_are_found_by_name_and_others_ignored(tmp_path: Path, make_stream: Any, read_all: Any) -> None:
    rows = read_text(
        tmp_path, make_stream, read_all, "extra,ts,Room\n9,2026-01-01T00:00:00Z,a\n", "room STRING, ts TIMESTAMP"
    )
    assert rows == [{"c0": "a", "c1": datetime(2026, 1, 1), "_ts": 1767225600000000}]


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.5Z", 500_000),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01 09:00:00+09:00", 0),
        ("1970-01-01T09:00:00.123+0900", 123_000),
        ("1969-12-31T18:30:00-05:30", 0),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("9999-12-31T23:59:59.999999Z", 253402300799999999),
    ],
)
def test_timestamps(tmp_path: Path, make_stream: Any, read_all: Any, text: str, us: int) -> None:
    assert read_text(tmp_path, make_stream, read_all, f"ts\n{text}\n", "ts TIMESTAMP")[0]["_ts"] == us


def test_mixed_zones_in_one_column(tmp_path: Path, make_stream: Any, read_all: Any) -> None:
    text = "ts\n2026-01-01T00:00:00Z\n2026-01-01T09:00:00.000001+09:00\n2025-12-31T19:00:00.000002-0500\n"
    rows = read_text(tmp_path, make_stream, read_all, text, "ts TIMESTAMP")
    assert [row["_ts"] - 1767225600000000 for row in rows] == [0, 1, 2]


def test_null_and_empty_string(tmp_path: Path, make_stream: Any, read_all: Any) -> None:
    rows = read_text(
        tmp_path,
        make_stream,
        read_all,
        'ts,a\n1970-01-01T00:00:00Z,\n1970-01-01T00:00:00Z,""\n',
        "ts TIMESTAMP, a STRING",
    )
    assert [row["c1"] for row in rows] == [None, ""]


@pytest.mark.parametrize("text", ["true", "TRUE", "tRuE", "1"])
def test_booleans(tmp_path: Path, make_stream: Any, read_all: Any, text: str) -> None:
    other = {"true": "false", "TRUE": "FALSE", "tRuE": "fAlSe", "1": "0"}[text]
    body = f"ts,a\n1970-01-01T00:00:00Z,{text}\n1970-01-01T00:00:00Z,{other}\n"
    assert [row["c1"] for row in read_text(tmp_path, make_stream, read_all, body, "ts TIMESTAMP, a BOOLEAN")] == [
        True,
        False,
    ]
    # The same on the slow path, which a bad row causes.
    rows = read_text(tmp_path, make_stream, read_all, body + "x,1\n", "ts TIMESTAMP, a BOOLEAN", skip=True)
    assert [row["c1"] for row in rows] == [True, False]


def test_numbers_are_the_same_on_both_paths(tmp_path: Path, make_stream: Any, read_all: Any) -> None:
    numbers = ["1", " 2", "3\t", "-0", "1e5", ".5", "5.", "inf", "-Infinity", "+1.5", '"7"', ""]
    body = "ts,a\n" + "".join(f"1970-01-01T00:00:00Z,{n}\n" for n in numbers)
    fast = read_text(tmp_path, make_stream, read_all, body, "ts TIMESTAMP, a DOUBLE")
    slow = read_text(tmp_path, make_stream, read_all, body + "x,1\n", "ts TIMESTAMP, a DOUBLE", skip=True)
    assert fast == slow
    assert [row["c1"] for row in fast] == [1.0, 2.0, 3.0, 0.0, 1e5, 0.5, 5.0, math.inf, -math.inf, 1.5, 7.0, None]


@pytest.mark.parametrize("text", ["ts\n", "ts", "ts\n\n\n", "\ufeffts\n"])
def test_a_file_with_a_header_alone_is_an_empty_stream(
    tmp_path: Path, make_stream: Any, read_all: Any, text: str
) -> None:
    assert read_text(tmp_path, make_stream, read_all, text, "ts TIMESTAMP") == []


def test_byte_order_mark_and_blank_lines(tmp_path: Path, make_stream: Any, read_all: Any) -> None:
    text = "\ufeffts,a\r\n\r\n1970-01-01T00:00:00Z,x\r\n\r\n1970-01-01T00:00:01Z,y"
    assert [row["c1"] for row in read_text(tmp_path, make_stream, read_all, text, "ts TIMESTAMP, a STRING")] == [
        "x",
        "y",
    ]


@pytest.mark.parametrize(
    ("text", "line", "name", "says"),
    [
        (b"", 1, None, "header is required"),
        (b"\n1\n", 1, None, "header is required"),
        (b"a,b\n", 1, "ts", "no such column; it has: a, b"),
        (b"ts,ts\n", 1, "ts", "2 times"),
        (b"\xff\n", 1, None, "header cannot be read"),
    ],
)
def test_wrong_headers(tmp_path: Path, make_stream: Any, text: bytes, line: int, name: str | None, says: str) -> None:
    (tmp_path / "in.csv").write_bytes(text)
    with pytest.raises(InputError, match=says) as caught:
        open_source(make_stream("csv", "ts TIMESTAMP", path="in.csv"), str(tmp_path), True, None).initial()
    assert (caught.value.line, caught.value.field) == (line, name)
    assert str(caught.value).startswith(str(tmp_path / "in.csv") + ":1:")


@pytest.mark.parametrize("path", ["part-*.csv", "parts", "parts/*.csv"])
@pytest.mark.parametrize("sizes", [[1], [2, 1], [100]])
def test_many_files_in_the_order_of_their_names(
    tmp_path: Path, make_stream: Any, read_all: Any, path: str, sizes: list[int]
) -> None:
    folder = tmp_path / "parts" if path.startswith("parts") else tmp_path
    folder.mkdir(exist_ok=True)
    for name, header, values in [
        ("c", "ts,a", "56"),
        ("a", "ts,a", "123"),
        ("b", "a,ts", ""),
        ("ab", "a,ts", "4"),
        ("d", "ts,a", ""),
    ]:
        rows = [{"ts": f"1970-01-01T00:00:0{v}Z", "a": v} for v in values]
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, header.split(","), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        (folder / f"part-{name}.csv").write_text(buffer.getvalue())
    (folder / ".hidden.csv").write_text("nothing")
    (folder / "readme.txt").write_text("nothing")
    source = open_source(make_stream("csv", "ts TIMESTAMP, a BIGINT", path=path), str(tmp_path), True, None)
    assert read_all(source, sizes).table["c1"].to_pylist() == [1, 2, 3, 4, 5, 6]
    begun = source.fraction(source.initial())
    assert begun is not None
    assert begun < 0.2


def test_a_missing_file_is_named(tmp_path: Path, make_stream: Any) -> None:
    for path in ("none.csv", "none-*.csv"):
        with pytest.raises(InputError, match=r"none.*relative to the app file"):
            open_source(make_stream("csv", "ts TIMESTAMP", path=path), str(tmp_path), True, None).initial()


def test_a_file_stream_needs_its_timestamp_and_known_options(tmp_path: Path, make_stream: Any) -> None:
    with pytest.raises(InputError, match="TIMESTAMP BY"):
        open_source(make_stream("csv", "a STRING", None, path="in.csv"), ".", True, None)
    with pytest.raises(OptionError, match="did you mean 'path'"):
        open_source(make_stream("csv", "ts TIMESTAMP", pth="in.csv"), ".", True, None)
    with pytest.raises(OptionError, match="path = "):
        open_source(make_stream("csv", "ts TIMESTAMP"), ".", True, None)
    with pytest.raises(OptionError, match="did you mean 'csv'"):
        open_source(make_stream("cvs", "ts TIMESTAMP"), ".", True, None)


def test_positions_are_json_and_hints_are_right(tmp_path: Path, make_stream: Any) -> None:
    lines = [f'{datetime.fromtimestamp(i, UTC).isoformat()},"a\n{i}"' for i in range(100)]
    (tmp_path / "in.csv").write_text("ts,a\n" + "\n".join(lines))
    source = open_source(make_stream("csv", "ts TIMESTAMP, a STRING", path="in.csv"), str(tmp_path), True, None)
    position = source.initial()
    for end in range(10, 101, 10):
        piece = source.advance(position, 10)
        assert (piece.rows, piece.last_ts_us, piece.end["line"]) == (
            10,
            (end - 1) * 1_000_000,
            2 + 2 * end - (end == 100),
        )
        assert Range.from_json(json.loads(json.dumps(piece.to_json()))) == piece
        position = piece.end
    assert source.fraction(position) == 1.0
    assert not source.live


@pytest.mark.parametrize("odd", ['5" pipe', '"a\n,""b"""', '"' + "long " * 500_000 + '"'])
def test_ranges_of_many_blocks(tmp_path: Path, make_stream: Any, read_all: Any, odd: str) -> None:
    lines = [
        f"1970-01-01T00:00:00.{i:06d}Z,{i},{odd if i % 997 == 0 and (i < 1000 or len(odd) < 100) else i}"
        for i in range(100_000)
    ]
    (tmp_path / "in.csv").write_text("ts,n,a\n" + "\n".join(lines))
    stream = make_stream("csv", "ts TIMESTAMP, n BIGINT, a STRING", path="in.csv")
    whole = read_all(open_source(stream, str(tmp_path), True, None)).table
    assert whole["_ts"].to_pylist() == whole["c1"].to_pylist() == list(range(100_000))
    assert whole.equals(read_all(open_source(stream, str(tmp_path), True, None), [1, 5000, 777, 20_000]).table)


def test_a_shortened_file_is_noticed(tmp_path: Path, make_stream: Any) -> None:
    (tmp_path / "in.csv").write_text("ts\n1970-01-01T00:00:00Z\n1970-01-01T00:00:00Z\n")
    source = open_source(make_stream("csv", "ts TIMESTAMP", path="in.csv"), str(tmp_path), True, None)
    piece = source.advance(source.initial(), 10)
    os.truncate(tmp_path / "in.csv", 10)
    with pytest.raises(InputError, match="shorter"):
        source.read(piece)
