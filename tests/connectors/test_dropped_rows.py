"""Rows that are dropped can be seen: ON ERROR INTO has the row as it was written, where it is and why; LATE INTO the
columns of late tuples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kigen.connectors import open_source
from kigen.language import CqlErrors
from kigen.lifetimes.intake import Intake, StreamInput
from kigen.plan import bind
from kigen.plan.logical import SourceStream

COLUMNS = "(n BIGINT, ts TIMESTAMP) TIMESTAMP BY ts"
QUERY = "CREATE QUERY q AS SELECT n FROM s [NOW];"


def stream_of(kind: str, clauses: str = "ON ERROR INTO csv (path = 'bad.csv')") -> SourceStream:
    return bind(f"CREATE STREAM s {COLUMNS} FROM {kind} (path = 'in.{kind}') {clauses};{QUERY}").stream("s")


def bad_rows(stream: SourceStream, folder: Path) -> list[tuple[str, str, str]]:
    source = open_source(stream, str(folder), True, 0)
    rows = source.read(source.advance(source.initial(), 1000))
    return [(row.text, row.place.removeprefix(str(folder) + "/"), row.reason) for row in rows.bad]


def test_csv(tmp_path: Path) -> None:
    text = 'n,ts\n1,2026-01-01T00:00:00Z\nx,2026-01-01T00:00:00Z\n1,2,3\n"two\nlines",2026-01-01T00:00:00Z\n7,\n'
    (tmp_path / "in.csv").write_text(text, encoding="utf-8")
    found = bad_rows(stream_of("csv"), tmp_path)
    assert [(row, place) for row, place, _ in found] == [
        ("x,2026-01-01T00:00:00Z", "in.csv:3"),
        ("1,2,3", "in.csv:4"),
        ('"two\nlines",2026-01-01T00:00:00Z', "in.csv:5"),
        ("7,", "in.csv:7"),
    ]
    assert found[0][2].startswith("field 'n': BIGINT required, found 'x'")
    assert found[1][2] == "2 fields required, found 3: '1,2,3'"


def test_json_lines(tmp_path: Path) -> None:
    good = '{"n": 1, "ts": "2026-01-01T00:00:00Z"}'
    (tmp_path / "in.jsonl").write_text(f'{good}\n\n{{"n": "1"}}\nnonsense\n', encoding="utf-8")
    found = bad_rows(stream_of("jsonl"), tmp_path)
    assert [(row, place) for row, place, _ in found] == [('{"n": "1"}', "in.jsonl:3"), ("nonsense", "in.jsonl:4")]


def test_parquet(tmp_path: Path) -> None:
    table = pa.table({"n": pa.array([1.0, 2.5], pa.float64()), "ts": pa.array([0, 1], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "in.parquet")
    assert [row for row, _, _ in bad_rows(stream_of("parquet"), tmp_path)] == [
        '{"n": "2.5", "ts": "1970-01-01 00:00:00.000001"}'
    ]


def test_nothing_is_listed_without_the_clause(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("n,ts\nx,2026-01-01T00:00:00Z\n", encoding="utf-8")
    assert bad_rows(stream_of("csv", "ON ERROR SKIP"), tmp_path) == []


@pytest.mark.parametrize("partitioned", [False, True])
def test_late_tuples_are_kept_with_their_distance(partitioned: bool) -> None:
    stream = stream_of("csv", "LATENESS 1 SECONDS LATE INTO csv (path = 'late.csv')")
    intake = Intake(stream)
    ts = pa.array([10_000_000, 9_500_000, 8_000_000], pa.int64())
    table = pa.table({"c0": pa.array([1, 2, 3], pa.int64()), "c1": ts.cast(pa.timestamp("us")), "_ts": ts})
    if partitioned:
        table = table.append_column("_partition", pa.array(["a/0"] * 3).dictionary_encode())
    assert intake.take_in(StreamInput([table])) == (2, 1)
    late = intake.late.take()
    assert late is not None
    assert late.select(["c0", "_ts", "_behind"]).to_pylist() == [{"c0": 3, "_ts": 8_000_000, "_behind": 2_000_000}]
    assert intake.late.take() is None
    other = Intake(replace(stream, late_into=None))
    other.take_in(StreamInput([table]))
    assert other.late.take() is None


def test_outputs_of_dropped_rows_are_checked_like_others() -> None:
    text = f"CREATE STREAM s {COLUMNS} FROM csv (path = 'in.csv') ON ERROR INTO csv (path = 'x.csv')"
    with pytest.raises(CqlErrors, match="are the same"):
        bind(f"{text} LATE INTO csv (path = 'x.csv');{QUERY}")
    with pytest.raises(CqlErrors, match="would overwrite the input"):
        bind(f"CREATE STREAM s {COLUMNS} FROM csv (path = 'in.csv') LATE INTO csv (path = 'in.csv');{QUERY}")
    with pytest.raises(CqlErrors, match="no tuple of stream s can be late"):
        bind(f"CREATE STREAM s (n BIGINT) FROM synthetic (rate = 1) LATE INTO console ();{QUERY}")
