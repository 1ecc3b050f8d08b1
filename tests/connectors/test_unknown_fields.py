"""Fields that a stream does not declare are ignored and counted; missing ones are NULL; another type is a bad row."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kigen.connectors import InputError, Range, open_source
from kigen.connectors.jsonl.rows import rows_of_json
from kigen.connectors.pushed import IngestQueue, decode_batch
from kigen.connectors.text_files import Span
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
