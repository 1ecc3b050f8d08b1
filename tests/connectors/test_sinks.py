"""Tests sinks: the text of results, and that opening at a sink position leaves exactly what was written by then."""

from __future__ import annotations

import csv
import json
import struct
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kigen.connectors import InputError, OptionError, Sink, open_sink
from kigen.plan.logical import Connector
from kigen.plan.types import Column, Type, arrow_schema

SCHEMA = (
    Column("a", Type.STRING),
    Column("x", Type.DOUBLE),
    Column("ok", Type.BOOLEAN),
    Column("t", Type.TIMESTAMP),
    Column("n", Type.BIGINT),
)
TEXTS = (
    st.none()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
    | st.sampled_from(["", '"', "\n", "\r", ",", " "])
)
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999))
ROW = st.tuples(
    TEXTS,
    st.none() | st.floats(allow_nan=False),
    st.none() | st.booleans(),
    st.none() | MOMENTS,
    st.none() | st.integers(-(2**63), 2**63 - 1),
)


def sink_of(kind: str, directory: Path, schema: Any = SCHEMA, is_stream: bool = False, **options: Any) -> Sink:
    return open_sink(Connector(kind, tuple(options.items())), schema, is_stream, str(directory), "q")


def table_of(rows: list[tuple[Any, ...]], schema: Any = SCHEMA, to: int | None = 5) -> pa.Table:
    fields = arrow_schema(schema)
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(fields)]
    lives = [pa.array(range(len(rows)), pa.int64()), pa.array([to] * len(rows), pa.int64())]
    return pa.table([*columns, *lives], names=[*fields.names, "_from", "_to"])


def test_the_text_of_a_relation(tmp_path: Path) -> None:
    sink = sink_of("csv", tmp_path, path="deep/er/out.csv")
    sink.open(None)
    sink.write(
        table_of([("", 0.1, True, datetime(2026, 1, 2, 3, 4, 5, 6), -1), (None, None, None, None, None)], to=None)
    )
    sink.write(table_of([('say "hi",\n', 1e300, False, datetime(1969, 12, 31, 23, 59, 59, 999_999), 2**62)], to=-1))
    sink.close()
    assert (tmp_path / "deep/er/out.csv").read_bytes().decode() == (
        "a,x,ok,t,n,_from,_to\n"
        '"",0.1,true,2026-01-02T03:04:05.000006Z,-1,1970-01-01T00:00:00.000000Z,\n'
        ",,,,,1970-01-01T00:00:00.000001Z,\n"
        '"say ""hi"",\n",1e+300,false,1969-12-31T23:59:59.999999Z,4611686018427387904,'
        "1970-01-01T00:00:00.000000Z,1969-12-31T23:59:59.999999Z\n"
    )


def test_the_text_of_a_stream_with_odd_and_repeated_names(tmp_path: Path) -> None:
    schema = (
        Column('a"b', Type.BIGINT),
        Column("c,d", Type.BIGINT),
        Column("e", Type.BIGINT),
        Column("e", Type.BIGINT),
    )
    sink = sink_of("csv", tmp_path, schema, True, path="out.csv")
    sink.open(None)
    sink.write(pa.table([[1], [2], [3], [4], [5]], names=["c0", "c1", "c2", "c3", "_at"]))
    sink.close()
    assert (tmp_path / "out.csv").read_text() == '"a""b","c,d",e,e,_at\n1,2,3,4,1970-01-01T00:00:00.000005Z\n'


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROW, max_size=10))
def test_a_csv_reader_gets_back_every_value(tmp_path: Path, rows: list[tuple[Any, ...]]) -> None:
    sink = sink_of("csv", tmp_path, path="out.csv")
    sink.open(None)
    sink.write(table_of(rows))
    sink.close()
    with open(tmp_path / "out.csv", newline="", encoding="utf-8") as file:
        found = list(csv.reader(file))[1:]
    assert len(found) == len(rows)
    for (a, x, ok, t, n), fields in zip(rows, found, strict=True):
        assert fields[0] == (a or "")
        assert fields[1] == "" if x is None else struct.pack("d", float(fields[1])) == struct.pack("d", x)
        assert fields[2] == ("" if ok is None else str(ok).lower())
        assert fields[3] == ("" if t is None else (t.isoformat() if t.microsecond else t.isoformat() + ".000000") + "Z")
        assert fields[4] == ("" if n is None else str(n))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(ROW, max_size=4), max_size=4),
    st.lists(st.lists(ROW, max_size=4), max_size=3),
    st.sampled_from(["csv", "parquet"]),
)
def test_cutting_back_to_a_position(
    tmp_path_factory: Any, kept: list[list[tuple[Any, ...]]], lost: list[list[tuple[Any, ...]]], kind: str
) -> None:
    folder = tmp_path_factory.mktemp("cut")

    def content() -> dict[str, bytes]:
        return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}

    def opened(position: dict[str, Any] | None) -> Sink:
        sink = sink_of(kind, folder, path="out")
        sink.open(position)
        return sink

    first = opened(None)
    for rows in kept:
        first.write(table_of(rows))
    position = json.loads(json.dumps(first.commit()))
    before = content()
    for rows in lost:
        first.write(table_of(rows))
        first.commit()
    first.close()
    opened(position).close()
    assert content() == before
    again = opened(position)
    for rows in lost:
        again.write(table_of(rows))
        again.commit()
    again.close()
    straight = opened(None)
    straight.commit()
    assert all(len(data) < 60 for data in content().values())  # a fresh start leaves at most the header
    for rows in kept:
        straight.write(table_of(rows))
    assert straight.commit() == position
    straight.close()
    assert content() == before


def test_a_csv_file_shorter_than_its_mark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs its first 100 bytes, found 0"):
        sink_of("csv", tmp_path, path="out.csv").open({"bytes": 100})


def test_parquet_parts_hold_names_and_utc_times(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in ("part-00000.parquet", ".part-00003.parquet.tmp", "part-00007.parquet", "notes.txt"):
        (tmp_path / "out" / name).write_text("left by an earlier run")
    sink = sink_of("parquet", tmp_path, path="out")
    sink.open(None)
    row = ("é", 0.5, True, datetime(2026, 1, 1), 7)
    sink.write(table_of([row], to=None))
    assert sink.commit() == {"parts": 1}
    sink.write(table_of([row], to=5))
    assert sink.commit() == sink.commit() == {"parts": 2}
    sink.close()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "notes.txt",
        "part-00000.parquet",
        "part-00001.parquet",
    ]
    table = pq.read_table(tmp_path / "out" / "part-00000.parquet")
    assert table.column_names == ["a", "x", "ok", "t", "n", "_from", "_to"]
    assert table.schema.field("_to").type == pa.timestamp("us", "UTC")
    assert tuple(table.to_pylist()[0].values())[:5] == row
    assert table["_to"].to_pylist() == [None]


def test_repeated_names_are_told_apart_in_parquet(tmp_path: Path) -> None:
    schema = (Column("e", Type.BIGINT), Column("e", Type.BIGINT), Column("_at", Type.BIGINT))
    sink = sink_of("parquet", tmp_path, schema, True, path="out")
    sink.open(None)
    sink.write(pa.table([[1], [2], [3], [4]], names=["c0", "c1", "c2", "_at"]))
    sink.close()
    assert pq.read_table(tmp_path / "out").column_names == ["e", "e_1", "_at_1", "_at"]


def test_console(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sink = sink_of("console", tmp_path)
    sink.open(None)
    sink.write(table_of([("a", 0.5, None, datetime(2026, 1, 1) + timedelta(microseconds=1), 7)], to=None))
    sink.commit()
    sink.close()
    line = "q  1970-01-01T00:00:00.000000Z .. ?  a = 'a', x = 0.5, ok = NULL, t = 2026-01-01T00:00:00.000001Z, n = 7\n"
    assert capsys.readouterr().out == line


def test_wrong_declarations(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="query 'q': no connector 'consol'; did you mean 'console'"):
        sink_of("consol", tmp_path)
    with pytest.raises(OptionError, match="has no option 'path'"):
        sink_of("console", tmp_path, path="x")
    with pytest.raises(OptionError, match=r"write parquet \(path"):
        sink_of("parquet", tmp_path)
