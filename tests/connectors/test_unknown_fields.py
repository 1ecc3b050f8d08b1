"""Fields that a stream does not declare are ignored and counted; missing ones are NULL; another type is a bad row."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kigen.connectors import InputError, Range, open_source
from kigen.connectors.jsonl.rows import rows_of_json
from kigen.connectors.pushed import IngestQueue, decode_batch
from kigen.connectors.text_files import Span
from kigen.connectors.values.missing_columns import merged_missing
from kigen.connectors.values.unknown_fields import MOST, OTHERS, merged
from kigen.plan import bind
from kigen.plan.logical import App, SourceStream
from kigen.spark.links.ingest_source import left_out_of
from kigen.spark.operator.step_note import step_note
from kigen.spark.sink.metrics import Metrics

ENTRY = st.none() | st.integers(-9, 9) | st.text('ab"\\,', max_size=3) | st.lists(st.integers(0, 3), max_size=2)
OBJECT = st.fixed_dictionaries({"n": st.none() | st.integers(0, 9)}, optional=dict.fromkeys(("x", "y", "z"), ENTRY))


def stream_of(connector: str, columns: str = "n BIGINT") -> SourceStream:
    text = f"CREATE STREAM s ({columns}) FROM {connector}; CREATE QUERY q AS SELECT n FROM s [NOW];"
    return bind(text).streams[0]


STREAM = stream_of("http ()")


@settings(max_examples=150, deadline=None)
@given(st.lists(OBJECT, min_size=1, max_size=8))
def test_json_keys_are_counted_whatever_their_types(objects: list[dict[str, Any]]) -> None:
    data = "".join(json.dumps(one) + "\n" for one in objects).encode()
    rows = rows_of_json(Span("f", data, 1), STREAM, None, "f")
    assert rows.table["c0"].to_pylist() == [one["n"] for one in objects]
    wanted = {k: sum(one.get(k) is not None for one in objects) for k in ("x", "y", "z")}
    assert dict(rows.unknown) == {k: count for k, count in wanted.items() if count}


def test_bad_rows_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b'{"n": 1, "x": 1}\n{"n": "changed", "x": 2}\n{"x": 3}\n'
    with pytest.raises(InputError, match="field 'n': BIGINT required"):
        rows_of_json(Span("f", data, 1), STREAM, None, "f")
    text = "CREATE STREAM s (n BIGINT) FROM http () ON ERROR SKIP; CREATE QUERY q AS SELECT n FROM s [NOW];"
    rows = rows_of_json(Span("f", data, 1), bind(text).streams[0], None, "f")
    assert rows.table["c0"].to_pylist() == [1, None]
    assert (rows.skipped, rows.unknown) == (1, {"x": 3})


@pytest.mark.parametrize("follow", [False, True])
def test_columns_of_a_csv_header(tmp_path: Path, follow: bool) -> None:
    (tmp_path / "in.csv").write_text("a,ts,n,b\n" + "".join(f"x,1970-01-01T00:00:0{i}Z,{i},y\n" for i in range(4)))
    columns = "n BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'in.csv'"
    stream = bind(f"CREATE STREAM s ({columns}); CREATE QUERY q AS SELECT n FROM s [NOW];").streams[0]
    source = open_source(stream, str(tmp_path), True, None)
    rows = source.read(source.advance(source.initial(), 3))
    assert rows.unknown == {"a": 3, "b": 3}


def test_pushed_batches_carry_their_counts(tmp_path: Path) -> None:
    queue = IngestQueue(STREAM, tmp_path, tmp_path / "clock", syncs=False)
    body = io.BytesIO()
    table = pa.table({"n": [1, 2], "other": ["a", "b"]})
    with pa.ipc.new_stream(body, table.schema) as writer:
        writer.write_table(table)
    now_us = time.time_ns() // 1000
    queue.push(decode_batch(b'{"n": 1, "x": 1}\n', "application/x-ndjson", STREAM, now_us))
    queue.push(decode_batch(b"n,x\n5,6\n7,8\n", "text/csv", STREAM, now_us))
    queue.push(decode_batch(body.getvalue(), "application/vnd.apache.arrow.stream", STREAM, now_us))
    notes = pa.Table.from_batches(queue.queue.read(0).batches()).column("_note").drop_null().to_pylist()
    assert left_out_of(notes).unknown == {"x": 3, "other": 2}
    queue.close()


def test_names_are_limited() -> None:
    found = merged([{f"k{n}": 1 for n in range(30)}, {"k1": 5, "new": 1}])
    assert len(found) == MOST + 1
    assert (found["k1"], found[OTHERS]) == (6, 11)


def test_the_report_counts_each_row_once_however_many_queries_read_it() -> None:
    app: App = bind(
        "CREATE STREAM s (n BIGINT) FROM http (); CREATE QUERY a AS SELECT n FROM s [NOW];"
        "CREATE QUERY b AS SELECT n + 1 AS m FROM s [ROWS 2];"
    )
    rows = rows_of_json(Span("f", b'{"n": 1, "x": 1}\n{"n": 2, "x": 2}\n', 1), app.streams[0], None, "f")
    metrics = Metrics.fresh(app)
    for query in ("a", "b"):

        class Result:
            counts = {query: {"in": 2, "late": 0}}  # noqa: RUF012
            finished, next_event_us = False, None

        payload = {"admitted_us": 0, "dropped": {}}
        note = step_note(Result(), [(Range("s", {"index": 0}, {"index": 2}), rows)], payload, {}, {})
        metrics.step(app, json.loads(json.dumps(note)))
    again = Metrics.from_json(json.loads(json.dumps(metrics.to_json())))
    assert again.unknown == {"s": {"x": 2}}


COLUMNS = "n BIGINT, room STRING, at DATE, l BIGINT[], ts TIMESTAMP"


def file_of(kind: str, path: Path, names: list[str], first: int, count: int = 2) -> None:
    """Writes rows with these columns only."""
    values = {
        "n": list(range(first, first + count)),
        "room": [f"r{i}" for i in range(first, first + count)],
        "at": ["2026-01-02"] * count,
        "l": ["[1,2]"] * count,
        "ts": [f"1970-01-01T00:00:{i:02}Z" for i in range(first, first + count)],
        "more": ["x"] * count,
    }
    rows = [{name: values[name][i] for name in names} for i in range(count)]
    if kind == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
    elif kind == "jsonl":
        typed = [{k: json.loads(v) if k == "l" else v for k, v in row.items()} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in typed), encoding="utf-8")
    else:
        table = pa.table({name: values[name] for name in names})
        for name, type_ in (("ts", pa.timestamp("us", "UTC")), ("at", pa.date32())):
            if name in names:
                table = table.set_column(names.index(name), name, table[name].cast(type_))
        if "l" in names:
            table = table.set_column(names.index("l"), "l", pa.array([[1, 2]] * count))
        pq.write_table(table, path)


def source_of(kind: str, directory: Path, draining: bool, columns: str = COLUMNS, more: str = "") -> Any:
    declared = f"CREATE STREAM s ({columns}) TIMESTAMP BY ts FROM {kind} (path = 'in/*.{kind}'{more});"
    stream = bind(f"{declared} CREATE QUERY q AS SELECT * FROM s [NOW];").streams[0]
    return open_source(stream, str(directory), draining, None if draining else str(directory / "ck"))


def rows_of(source: Any, draining: bool, count: int) -> list[Any]:
    """Returns what all ranges give: of a drain one by one, of a followed stream as soon as all records are there."""
    if draining:
        position, found = source.initial(), []
        while True:
            piece = source.advance(position, 3)
            found.append(source.read(piece))
            position = piece.end
            if piece.ended:
                return found
    source.initial()
    source.resume({0: None})
    until = time.monotonic() + 60
    while source.arrived_by(time.time_ns() // 1000) < count:
        assert time.monotonic() < until
        time.sleep(0.01)
    found = [source.read(source.piece("s", 0, count, None, False))]
    source.close()
    return found


@pytest.mark.parametrize("draining", [True, False])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_columns_that_a_file_lacks_are_null_and_counted(tmp_path: Path, kind: str, draining: bool) -> None:
    (tmp_path / "in").mkdir()
    file_of(kind, tmp_path / "in" / f"a.{kind}", ["ts", "n", "room", "at", "l"], 0)
    file_of(kind, tmp_path / "in" / f"b.{kind}", ["more", "n", "ts"], 2, count=3)
    file_of(kind, tmp_path / "in" / f"c.{kind}", ["room", "ts", "l"], 5)
    read = rows_of(source_of(kind, tmp_path, draining, more="" if draining else ", follow = true"), draining, 7)
    table = pa.concat_tables([rows.table for rows in read])
    assert table["c0"].to_pylist() == [0, 1, 2, 3, 4, None, None]
    assert table["c1"].to_pylist() == ["r0", "r1", None, None, None, "r5", "r6"]
    assert table["c2"].null_count == 5
    assert table["c3"].to_pylist() == [[1, 2], [1, 2], None, None, None, [1, 2], [1, 2]]
    assert table["_ts"].to_pylist() == [i * 1_000_000 for i in range(7)]
    missing = {name: (count, Path(at).name) for name, (count, at) in merged_missing(r.missing for r in read).items()}
    wanted = {"room": (3, "b"), "at": (5, "b"), "l": (3, "b"), "n": (2, "c")}
    assert missing == ({} if kind == "jsonl" else {k: (n, f"{file}.{kind}") for k, (n, file) in wanted.items()})


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["n", "room"], "field 'ts': the .* has no such column; it has: n, room. It is required: it is the stream's"),
        (["more"], "field 'ts': the .* has no such column"),
    ],
)
def test_a_missing_timestamp_ends_the_run(tmp_path: Path, kind: str, names: list[str], says: str) -> None:
    (tmp_path / "in").mkdir()
    file_of(kind, tmp_path / "in" / f"a.{kind}", names, 0)
    for draining in (True, False) if kind == "csv" else (True,):  # parquet is opened when it is read
        with pytest.raises(InputError, match=says):
            source_of(kind, tmp_path, draining, more="" if draining else ", follow = true").initial()


def test_a_batch_without_any_declared_column_is_refused() -> None:
    with pytest.raises(InputError, match=r"batch:1: the header has none of the columns of stream 's' \(n\); it has: x"):
        decode_batch(b"x,y\n1,2\n", "text/csv", STREAM, 0)


@pytest.mark.parametrize("bad", ["", "oops,1970-01-01T00:00:04Z\n", "7\n"])
def test_bad_rows_beside_missing_columns(tmp_path: Path, bad: str) -> None:
    """The slow way, which finds bad rows, gives the same NULLs."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(f"n,ts\n1,1970-01-01T00:00:01Z\n{bad}2,1970-01-01T00:00:05Z\n")
    stream = bind(
        f"CREATE STREAM s ({COLUMNS}) TIMESTAMP BY ts ON ERROR SKIP FROM csv (path = 'in/a.csv');"
        "CREATE QUERY q AS SELECT * FROM s [NOW];"
    ).streams[0]
    (rows,) = rows_of(open_source(stream, str(tmp_path), True, None), True, 0)
    assert rows.table["c0"].to_pylist() == [1, 2]
    assert rows.table["c1"].null_count == rows.table["c3"].null_count == 2
    assert rows.skipped == bool(bad)
    assert {name: count for name, (count, _) in rows.missing.items()} == dict.fromkeys(
        ("room", "at", "l"), 2 + bool(bad)
    )


def test_pushed_batches_carry_what_they_lack(tmp_path: Path) -> None:
    stream = stream_of("http ()", "n BIGINT, room STRING, v DOUBLE")
    queue = IngestQueue(stream, tmp_path, tmp_path / "clock", syncs=False)
    body = io.BytesIO()
    table = pa.table({"n": [1, 2], "room": ["a", "b"]})
    with pa.ipc.new_stream(body, table.schema) as writer:
        writer.write_table(table)
    queue.push(decode_batch(b"n\n5\n7\n", "text/csv", stream, 0))
    queue.push(decode_batch(body.getvalue(), "application/vnd.apache.arrow.stream", stream, 0))
    found = pa.Table.from_batches(queue.queue.read(0).batches())
    assert found["c1"].to_pylist() == [None, None, "a", "b"]
    missing = left_out_of(found["_note"].drop_null().to_pylist()).missing
    assert missing == {"room": (2, "batch"), "v": (4, "batch")}
    queue.close()


def test_the_report_and_one_warning_name_what_is_missing() -> None:
    app = bind("CREATE STREAM s (n BIGINT, v DOUBLE) FROM http (); CREATE QUERY a AS SELECT n FROM s [NOW];")
    metrics = Metrics.fresh(app)
    said = []
    for text in (b"n\n1\n2\n", b"n\n3\n", b"v\n1.5\n"):
        rows = decode_batch(text, "text/csv", app.streams[0], 0)

        class Result:
            counts = {"a": {"in": 2, "late": 0}}  # noqa: RUF012
            finished, next_event_us = False, None

        read = [(Range("s", {"index": 0}, {"index": 2}), rows)]
        note = json.loads(json.dumps(step_note(Result(), read, {"admitted_us": 0, "dropped": {}}, {}, {})))
        said += metrics.step(app, note)
        metrics = Metrics.from_json(json.loads(json.dumps(metrics.to_json())))
    assert metrics.missing == {"s": {"v": (3, "batch"), "n": (1, "batch")}}
    assert [text.partition(": it is")[0] for text in said] == [
        f"warning: stream 's': column '{name}' is missing in batch" for name in ("v", "n")
    ]
