"""Pushed batches by content type: the same rows from JSON lines, CSV and Arrow, and the same refusals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from kigen.connectors import InputError
from kigen.connectors.pushed import UnknownContentType, decode_batch
from kigen.plan import bind
from kigen.plan.logical import SourceStream

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOW_US = int(NOW.timestamp()) * 1_000_000
TIMED = "TIMESTAMP BY ts"


def stream_of(clauses: str = TIMED) -> SourceStream:
    declared = f"CREATE STREAM s (k STRING, n BIGINT, v DOUBLE, b BOOLEAN, ts TIMESTAMP) {clauses} FROM http ();"
    return bind(declared + "CREATE QUERY q AS SELECT k FROM s [NOW];").streams[0]


def arrow(table: pa.Table, is_file: bool = False) -> bytes:
    out = pa.BufferOutputStream()
    with (pa.ipc.new_file if is_file else pa.ipc.new_stream)(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


TABLE = pa.table(
    {
        "ts": pa.array([NOW, NOW + timedelta(seconds=1)], pa.timestamp("ms", "UTC")),
        "k": pa.array(["a", None]).dictionary_encode(),
        "n": pa.array([1, 2], pa.int16()),
        "v": [0.5, None],
        "b": [True, False],
        "other": [1, 2],
    }
)
BODIES = {
    "application/x-ndjson": b'{"k": "a", "n": 1, "v": 0.5, "b": true, "ts": "2026-01-02T03:04:05Z", "x": [1]}\n'
    b'{"n": 2, "b": false, "ts": "2026-01-02T03:04:06Z"}',
    "text/csv; charset=utf-8": b"ts,k,n,v,b\r\n2026-01-02T03:04:05Z,a,1,0.5,true\r\n2026-01-02T03:04:06Z,,2,,false\r\n",
    "application/vnd.apache.arrow.stream": arrow(TABLE),
    "application/vnd.apache.arrow.file": arrow(TABLE, is_file=True),
}


@pytest.mark.parametrize("content_type", BODIES)
@pytest.mark.parametrize("clauses", ["", TIMED])
def test_every_content_type_gives_the_same_rows(content_type: str, clauses: str) -> None:
    found = decode_batch(BODIES[content_type], content_type, stream_of(clauses), NOW_US).table
    naive = NOW.replace(tzinfo=None)
    assert [found[f"c{i}"].to_pylist() for i in range(5)] == [
        ["a", None],
        [1, 2],
        [0.5, None],
        [True, False],
        [naive, naive + timedelta(seconds=1)],
    ]
    assert ("_ts" in found.column_names) == bool(clauses)


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        ("application/x-ndjson", b'{"ts": "2026-01-02T03:04:05Z"}\n{"n": 1.5}', r"batch:2: field 'n': BIGINT required"),
        ("application/x-ndjson", b"null", "batch:1: a JSON object required"),
        ("application/x-ndjson", b'{"k": "a"}', "field 'ts': the stream's timestamp is required, found no such key"),
        ("application/x-ndjson", b'{"ts": "2026-01-02T05:04:05Z"}', "is too far ahead"),
        ("text/csv", b"k,n\na,1\n", "batch:1: field 'ts': the header has no such column"),
        ("text/csv", b"k,n,v,b,ts\na,1,2,true,2026-01-02T03:04:05Z\na,x,2,true,2026-01-02T03:04:05Z\n", "batch:3: field 'n'"),
        ("text/csv", b"", "a header is required"),
        ("application/vnd.apache.arrow.stream", b"nonsense", "an Arrow IPC stream is required"),
        ("application/vnd.apache.arrow.stream", arrow(pa.table({"k": ["a"]})), "field 'ts': the batch has no such column"),
        ("application/vnd.apache.arrow.stream", arrow(TABLE.set_column(2, "n", pa.array([1.0, 2.5]))), "batch:2: field 'n': BIGINT required, found '2.5'"),
        ("application/vnd.apache.arrow.stream", arrow(TABLE.set_column(0, "ts", pa.array([NOW, None], pa.timestamp("us", "UTC")))), "batch:2: field 'ts': the stream's timestamp is required"),
        ("application/vnd.apache.arrow.stream", arrow(TABLE.set_column(1, "k", pa.array([[1], [2]]))), "field 'k': STRING required, found list"),
    ],
)  # fmt: skip
def test_a_bad_row_is_named(content_type: str, body: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        decode_batch(body, content_type, stream_of(), NOW_US)


def test_bad_rows_are_left_out_under_on_error_skip() -> None:
    body = arrow(TABLE.set_column(2, "n", pa.array([1.0, 2.5])))
    found = decode_batch(body, "application/vnd.apache.arrow.stream", stream_of(TIMED + " ON ERROR SKIP"), NOW_US)
    assert (found.table.num_rows, found.skipped) == (1, 1)


def test_an_unknown_content_type_is_refused() -> None:
    with pytest.raises(UnknownContentType, match="'text/html' is not known: send application/x-ndjson, text/csv"):
        decode_batch(b"", "text/html", stream_of(), NOW_US)
