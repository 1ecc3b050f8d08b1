"""Tests JSON lines: any cut gives the same rows, both parsers agree, and a gallery of bad rows."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kigen.connectors import InputError, open_source

COLUMNS = "ts TIMESTAMP, name STRING, n BIGINT, x DOUBLE, ok BOOLEAN"
GOOD = '{"ts": "1970-01-01T00:00:01Z", "name": "ok", "n": 1, "x": 1.5, "ok": true, "more": [1, {"a": null}]}'
VALUES = st.fixed_dictionaries(
    {"ts": st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(lambda t: t.isoformat() + "Z")},
    optional={
        "name": st.none()
        | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
        | st.sampled_from(["NaN", "Inf", "\n", "}{"]),
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "x": st.none() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False),
        "ok": st.none() | st.booleans(),
        "other": st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    },
)


def source_of(tmp_path: Path, make_stream: Any, body: str | bytes, skip: bool = False) -> Any:
    (tmp_path / "in.jsonl").write_bytes(body if isinstance(body, bytes) else body.encode())
    return open_source(make_stream("jsonl", COLUMNS, path="in.jsonl", skip=skip), str(tmp_path), True, None)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(VALUES, max_size=20), st.booleans(), st.integers(1, 7), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_any_cut_gives_the_rows_that_were_written(
    tmp_path: Path,
    make_stream: Any,
    read_all: Any,
    values: list[dict[str, Any]],
    ascii_only: bool,
    size: int,
    newline: str,
) -> None:
    body = newline.join(json.dumps(value, ensure_ascii=ascii_only) for value in values)
    table = read_all(source_of(tmp_path, make_stream, body), [size]).table
    assert table.equals(read_all(source_of(tmp_path, make_stream, body)).table)
    assert table["c0"].to_pylist() == [datetime.fromisoformat(v["ts"][:-1]) for v in values]
    for name, key in (("c1", "name"), ("c2", "n"), ("c4", "ok")):
        assert table[name].to_pylist() == [v.get(key) for v in values]
    assert table["c3"].to_pylist() == [None if v.get("x") is None else float(v["x"]) for v in values]
    # A bad line sends the whole range to the slow parser: the good rows stay the same.
    slow = read_all(source_of(tmp_path, make_stream, body + "\nnull", skip=True))
    assert slow.skipped == 1
    assert slow.table.equals(table)


def row(**changes: str) -> str:
    return json.dumps({**json.loads(GOOD), **{k: json.loads(v) for k, v in changes.items()}})


GALLERY: list[tuple[str | bytes, str | None, str]] = [
    ("null", None, "a JSON object required, found 'null'"),
    ("[1]", None, "a JSON object required"),
    ("5", None, "a JSON object required"),
    ('{"ts": ', None, "a JSON object required"),
    (GOOD + GOOD, None, "a JSON object required"),
    (GOOD + ",", None, "a JSON object required"),
    ("{'ts': 1}", None, "a JSON object required"),
    (GOOD[:-1] + ', "n": 2}', None, "'n' appears twice"),
    (GOOD.replace("1.5", "1e999"), None, "too large"),
    (GOOD.replace('"ok",', '"\\ud800",'), None, "a JSON object required"),
    (GOOD.replace('"ok",', '"a\tb",'), None, "a JSON object required"),
    (GOOD.encode().replace(b'"ok",', b'"\xff",'), None, "a JSON object required"),
    (row(n="1.5"), "n", "BIGINT required, found '1.5'"),
    (row(n="1.0"), "n", "BIGINT required"),
    (row(n='"1"'), "n", "BIGINT required, found '\"1\"'"),
    (row(n="true"), "n", "BIGINT required, found 'true'"),
    (row(n="9223372036854775808"), "n", "BIGINT required"),
    (row(x='"1.5"'), "x", "DOUBLE required"),
    (row(name="5"), "name", "STRING required, found '5'"),
    (row(name='{"a": 1}'), "name", "STRING required"),
    (row(ok="1"), "ok", "BOOLEAN required"),
    (row(ok='"true"'), "ok", "BOOLEAN required"),
    (row(ts="5"), "ts", "TIMESTAMP required, found '5'"),
    (row(ts='"1970-01-01T00:00:00"'), "ts", "with Z or an offset"),
    (row(ts="null"), "ts", "timestamp is required, found null"),
    ("{}", "ts", "timestamp is required, found no such key"),
]


@pytest.mark.parametrize(("line", "name", "says"), GALLERY)
def test_bad_rows(
    tmp_path: Path, make_stream: Any, read_all: Any, line: str | bytes, name: str | None, says: str
) -> None:
    raw = line if isinstance(line, bytes) else line.encode()
    body = b"\n".join([GOOD.encode(), b"", raw, GOOD.encode()])
    with pytest.raises(InputError) as caught:
        read_all(source_of(tmp_path, make_stream, body))
    assert (caught.value.file, caught.value.line, caught.value.field) == (str(tmp_path / "in.jsonl"), 3, name)
    assert says in str(caught.value)
    for size in (1, 100):
        rows = read_all(source_of(tmp_path, make_stream, body, skip=True), [size])
        assert (rows.skipped, rows.table.num_rows) == (1, 2)
        assert rows.errors == [str(caught.value)]


def test_an_object_over_two_lines_is_two_bad_rows(tmp_path: Path, make_stream: Any, read_all: Any) -> None:
    rows = read_all(source_of(tmp_path, make_stream, GOOD + "\n" + GOOD.replace(", ", ",\n", 1), skip=True))
    assert (rows.skipped, rows.table.num_rows) == (2, 1)


def test_byte_order_mark_and_empty_file(tmp_path: Path, make_stream: Any, read_all: Any) -> None:
    assert read_all(source_of(tmp_path, make_stream, "\ufeff" + GOOD)).table.num_rows == 1
    assert read_all(source_of(tmp_path, make_stream, "")).table.num_rows == 0


def test_the_hint_is_the_last_timestamp(tmp_path: Path, make_stream: Any) -> None:
    source = source_of(tmp_path, make_stream, GOOD + "\n" + row(ts='"1970-01-01T00:00:09Z"') + "\nbroken\n")
    assert source.advance(source.initial(), 10).last_ts_us == 9_000_000
