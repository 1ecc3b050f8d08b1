"""Changes as text and files: csv, jsonl, parquet and the console; JSON messages; and cuts at a sink position."""

from __future__ import annotations

import json
import math
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kigen.connectors import Sink, open_sink
from kigen.connectors.json_messages import JsonMessages, message_keys, value_texts
from kigen.plan.logical import Connector
from kigen.plan.types import Column, Type, arrow_schema

SCHEMA = (Column("a", Type.STRING), Column("x", Type.DOUBLE), Column("n", Type.BIGINT), Column("t", Type.TIMESTAMP))
FIELDS = arrow_schema(SCHEMA)
DAY = datetime(2026, 1, 2, 3, 4, 5, 6)


def changes(*rows: tuple[Any, ...]) -> pa.Table:
    """Each row: `_op`, `_at`, then the columns."""
    columns = [pa.array([row[i + 2] for row in rows], field.type) for i, field in enumerate(FIELDS)]
    times = [pa.array([row[1] for row in rows], pa.int64()), pa.array([row[0] for row in rows], pa.string())]
    return pa.table([*columns, *times], names=[*FIELDS.names, "_at", "_op"])


BORN = ("insert", 1, 'say "hi"', 1.5, 2**60, DAY)
DEAD = ("delete", 2, 'say "hi"', 1.5, 2**60, DAY)
ODD = ("insert", 3, None, math.nan, None, None)


def sink_of(kind: str, directory: Path, is_stream: bool = False, **options: Any) -> Sink:
    return open_sink(Connector(kind, tuple(options.items())), SCHEMA, is_stream, str(directory), "q")


def test_csv(tmp_path: Path) -> None:
    sink = sink_of("csv", tmp_path, path="o.csv", mode="changes")
    sink.open(None)
    sink.write(changes(BORN, DEAD))
    sink.close()
    assert (tmp_path / "o.csv").read_text() == (
        "a,x,n,t,_op,_at\n"
        '"say ""hi""",1.5,1152921504606846976,2026-01-02T03:04:05.000006Z,insert,1970-01-01T00:00:00.000001Z\n'
        '"say ""hi""",1.5,1152921504606846976,2026-01-02T03:04:05.000006Z,delete,1970-01-01T00:00:00.000002Z\n'
    )


def test_jsonl_and_its_cut(tmp_path: Path) -> None:
    sink = sink_of("jsonl", tmp_path, path="o.jsonl", mode="changes")
    sink.open(None)
    sink.write(changes(BORN))
    position = sink.commit()
    sink.write(changes(DEAD))
    sink.close()
    again = sink_of("jsonl", tmp_path, path="o.jsonl", mode="changes")
    again.open(position)
    again.write(changes(ODD))
    again.close()
    assert (tmp_path / "o.jsonl").read_text() == (
        '{"_op":"insert","_at":"1970-01-01T00:00:00.000001Z","a":"say \\"hi\\"","x":1.5,"n":1152921504606846976,'
        '"t":"2026-01-02T03:04:05.000006Z"}\n'
        '{"_op":"insert","_at":"1970-01-01T00:00:00.000003Z","a":null,"x":"NaN","n":null,"t":null}\n'
    )


def test_jsonl_adopts_what_its_encoder_wrote(tmp_path: Path) -> None:
    sink = sink_of("jsonl", tmp_path, path="o.jsonl", mode="changes")
    sink.open(None)
    encoder = sink.encoder()
    assert encoder is not None
    encoding = encoder.start(str(tmp_path / "piece"))
    encoding.add(changes(BORN, DEAD))
    encoding.finish()
    sink.adopt(str(tmp_path / "piece"))
    sink.close()
    assert [json.loads(line)["_op"] for line in (tmp_path / "o.jsonl").read_text().splitlines()] == ["insert", "delete"]


def test_parquet(tmp_path: Path) -> None:
    sink = sink_of("parquet", tmp_path, path="o", mode="changes")
    assert sink.commits_per_epoch
    sink.open(None)
    sink.write(changes(BORN, DEAD))
    sink.commit()
    table = pq.read_table(tmp_path / "o")
    assert table.column_names == ["a", "x", "n", "t", "_op", "_at"]
    assert table["_op"].to_pylist() == ["insert", "delete"]
    assert table["_at"].cast(pa.int64()).to_pylist() == [1, 2]


def test_console(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sink = sink_of("console", tmp_path, mode="changes")
    sink.open(None)
    sink.write(changes(BORN, DEAD))
    sink.commit()
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("q  1970-01-01T00:00:00.000001Z  +  a = 'say \"hi\"', x = 1.5")
    assert second.startswith("q  1970-01-01T00:00:00.000002Z  -  a = ")


TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ROW = st.tuples(TEXTS, st.none() | st.floats(), st.none() | st.integers(-(2**63), 2**63 - 1))


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=6))
def test_json_reads_back(rows: list[tuple[Any, ...]]) -> None:
    schema = (Column('a "b"', Type.STRING), Column("x", Type.DOUBLE), Column("x", Type.BIGINT))
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(arrow_schema(schema))]
    table = pa.table([*columns, pa.array([5] * len(rows))], names=["c0", "c1", "c2", "_at"]).slice(0)
    texts = [text for piece in JsonMessages(schema, is_stream=True).texts(table) for text in piece.to_pylist()]
    odd = {math.inf: "Infinity", -math.inf: "-Infinity"}
    for (a, x, n), text in zip(rows, texts, strict=True):
        wanted = x if x is None else "NaN" if x != x else odd.get(x, x)
        assert json.loads(text) == {'a "b"': a, "x": wanted, "x_1": n, "_at": "1970-01-01T00:00:00.000005Z"}
    bare = next(iter(JsonMessages(schema, is_stream=False, changes=True, bare=True).texts(table)))
    assert set(json.loads(bare[0].as_py())) == {'a "b"', "x", "x_1"}


def test_a_slice_of_a_table_and_decimals() -> None:
    column = pa.array(["a", None, 'q"', ""]).slice(1)
    assert value_texts(column).to_pylist() == ["null", '"q\\""', '""']
    assert value_texts(pa.array([Decimal(1), None], pa.decimal128(5, 2))).to_pylist() == ['"1.00"', "null"]
    assert value_texts(pa.array([True, None, False])).to_pylist() == ["true", "null", "false"]


def test_keys_of_messages() -> None:
    names, numbers = pa.array(["a", '"b"']), pa.array([1, 2])
    assert message_keys([names]).to_pylist() == ["a", '"b"']
    assert message_keys([numbers]).to_pylist() == ["1", "2"]
    assert message_keys([pa.array([0], pa.timestamp("us"))]).to_pylist() == ["1970-01-01T00:00:00.000000Z"]
    assert message_keys([names, numbers]).to_pylist() == ['["a",1]', '["\\"b\\"",2]']
