"""Tests tables: read once, from a copy ever after, with keys checked."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kigen.connectors import InputError, Source
from kigen.connectors.options import OptionError
from kigen.connectors.registry import open_source
from kigen.lifetimes.expressions.bounded import FIRST_US
from kigen.plan.binder import bind
from kigen.plan.logical import SourceStream

STREAM = "CREATE STREAM s (room STRING) FROM synthetic (rate = 1);"
QUERY = "CREATE QUERY q AS SELECT floor FROM s [NOW] JOIN rooms ON s.room = rooms.room;"


def declared(source: str, clauses: str = "") -> SourceStream:
    table = f"CREATE TABLE rooms (room STRING, floor BIGINT) FROM {source} {clauses};"
    return bind(f"{STREAM} {table} {QUERY}").stream("rooms")


def opened(stream: SourceStream, folder: Path, checkpoint: Path | None = None) -> Source:
    return open_source(stream, str(folder), True, None, None if checkpoint is None else str(checkpoint))


def rows_of(source: Source, at_once: int = 2) -> list[tuple[object, ...]]:
    position, found = source.initial(), list[tuple[object, ...]]()
    while True:
        piece = source.advance(position, at_once)
        table = source.read(piece).table
        assert table.column_names == ["c0", "c1", "_ts"]
        found += zip(*(table.column(i).to_pylist() for i in range(3)), strict=True)
        if piece.ended:
            return found
        position = piece.end


def test_rows_are_born_before_everything(tmp_path: Path) -> None:
    (tmp_path / "rooms.csv").write_text("floor,room\n1,a\n2,b\n,c\n")
    found = rows_of(opened(declared("csv (path = 'rooms.csv')"), tmp_path))
    assert found == [("a", 1, FIRST_US), ("b", 2, FIRST_US), ("c", None, FIRST_US)]


def test_parquet_and_an_empty_table(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"room": pa.array([], pa.string()), "floor": pa.array([], pa.int64())}), tmp_path / "r.parquet"
    )
    assert rows_of(opened(declared("parquet (path = 'r.parquet')"), tmp_path)) == []
    pq.write_table(pa.table({"room": ["a"], "floor": [7]}), tmp_path / "r.parquet")
    assert rows_of(opened(declared("parquet (path = 'r.parquet')"), tmp_path)) == [("a", 7, FIRST_US)]


def test_a_replay_finds_the_rows_that_were_read_first(tmp_path: Path) -> None:
    file, stream = tmp_path / "rooms.csv", declared("csv (path = 'rooms.csv')")
    file.write_text("room,floor\na,1\n")
    first = rows_of(opened(stream, tmp_path, tmp_path / "checkpoint"))
    file.write_text("room,floor\nz,9\n")
    assert rows_of(opened(stream, tmp_path, tmp_path / "checkpoint")) == first
    file.unlink()
    assert rows_of(opened(stream, tmp_path, tmp_path / "checkpoint")) == first


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,1\nb,2\na,3\n", r"2 rows have the KEY \(room\) = \(a\); remove all but one"),
        ("a,1\n,2\n", r"a row has NULL in its KEY \(room\)"),
    ],
)
def test_a_key_holds(rows: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "rooms.csv").write_text("room,floor\n" + rows)
    with pytest.raises(InputError, match=message):
        opened(declared("csv (path = 'rooms.csv')", "KEY (room)"), tmp_path).initial()
    both = declared("csv (path = 'rooms.csv')", "KEY (floor)")
    assert len(rows_of(opened(both, tmp_path))) == rows.count("\n")


def test_bad_rows_and_missing_files_are_named(tmp_path: Path) -> None:
    stream = declared("csv (path = 'rooms.csv')")
    with pytest.raises(InputError, match=r"rooms\.csv"):
        opened(stream, tmp_path).initial()
    (tmp_path / "rooms.csv").write_text("room,floor\na,first\n")
    with pytest.raises(InputError, match="'first'"):
        opened(stream, tmp_path).initial()


def test_a_live_run_does_not_refresh(tmp_path: Path) -> None:
    stream = declared("csv (path = 'rooms.csv')", "REFRESH EVERY 60 SECONDS")
    opened(stream, tmp_path)
    with pytest.raises(OptionError, match="REFRESH EVERY needs --drain"):
        open_source(stream, str(tmp_path), False, None)
