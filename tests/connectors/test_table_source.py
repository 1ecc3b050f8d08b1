"""Tests tables: read once, from a copy ever after, with keys checked."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kigen.connectors import InputError, Source
from kigen.connectors.registry import open_source
from kigen.connectors.table.versions import KeptTable, TableVersions
from kigen.lifetimes.expressions.bounded import FIRST_US
from kigen.lifetimes.windows.table_rows import BORN, ROW
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


def kept(stream: SourceStream, folder: Path) -> KeptTable:
    return KeptTable(TableVersions(folder, stream.name, stream.schema, sync=False), stream)


def as_rows(*pairs: tuple[str | None, int | None]) -> pa.Table:
    return pa.table(
        {"c0": pa.array([p[0] for p in pairs], pa.string()), "c1": pa.array([p[1] for p in pairs], pa.int64())}
    )


def test_a_live_table_has_a_log_of_versions(tmp_path: Path) -> None:
    (tmp_path / "rooms.csv").write_text("room,floor\na,1\nb,2\na,1\n")
    stream = declared("csv (path = 'rooms.csv')", "REFRESH EVERY 60 SECONDS")
    source = open_source(stream, str(tmp_path), False, None, str(tmp_path / "checkpoint"))
    first = source.advance(source.initial(), 10)
    assert (first.start, first.end, first.rows, first.ended) == ({"index": 0}, {"index": 1}, 3, False)
    assert source.advance(first.end, 10).end == first.end  # nothing new
    table = kept(stream, tmp_path / "checkpoint")
    assert not table.refresh(as_rows(("a", 1), ("a", 1), ("b", 2)))  # another order is no change
    assert table.refresh(as_rows(("a", 1), ("c", None)))
    second = source.advance(first.end, 10)
    changes = source.read(second).table
    assert changes.select(["c0", "c1", ROW, BORN]).to_pylist() == [
        {"c0": None, "c1": None, ROW: 1, BORN: False},
        {"c0": None, "c1": None, ROW: 2, BORN: False},
        {"c0": "c", "c1": None, ROW: 3, BORN: True},
    ]
    again = kept(stream, tmp_path / "checkpoint")  # another process goes on
    assert again.now.rows.column("c0").to_pylist() == ["a", "c"]
    assert again.refresh(as_rows(("c", None)))
    third = source.advance(second.end, 10)
    assert source.read(third).table.column(ROW).to_pylist() == [0]
    assert source.read(first).table.num_rows == 3  # a replay finds every version


def test_versions_that_no_replay_needs_go(tmp_path: Path) -> None:
    (tmp_path / "rooms.csv").write_text("room,floor\na,0\n")
    stream = declared("csv (path = 'rooms.csv')", "REFRESH EVERY 60 SECONDS")
    source = open_source(stream, str(tmp_path), False, None, str(tmp_path))
    source.initial()
    table = kept(stream, tmp_path)
    for number in range(1, 10):
        table.refresh(as_rows(("a", number), ("b", None)))
    before = source.read(source.advance({"index": 7}, 10)).table
    table.versions.trim(5)
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    assert names == {"rooms@5.whole.arrow", *(f"rooms@{n}.arrow" for n in range(6, 11))}
    new = source.advance(source.initial(), 10)  # a reader that is new begins at the oldest whole version
    assert new.end == {"index": 5}
    assert source.read(new).table.column("c1").to_pylist() == [None, 4]
    assert source.read(source.advance({"index": 7}, 10)).table.equals(before)
    assert kept(stream, tmp_path).now.rows.column("c1").to_pylist() == [None, 9]


def test_a_refresh_that_breaks_the_key_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "rooms.csv").write_text("room,floor\na,1\n")
    stream = declared("csv (path = 'rooms.csv')", "KEY (room) REFRESH EVERY 1 SECONDS")
    open_source(stream, str(tmp_path), False, None, str(tmp_path)).initial()
    table = kept(stream, tmp_path)
    with pytest.raises(InputError, match=r"2 rows have the KEY \(room\) = \(a\)"):
        table.refresh(as_rows(("a", 1), ("a", 2)))
    assert table.versions.newest() == 1
    assert table.refresh(as_rows(("a", 2)))


def test_a_checkpoint_of_older_kigen_goes_on(tmp_path: Path) -> None:
    (tmp_path / "rooms.csv").write_text("room,floor\na,1\nb,2\nc,3\n")
    source = opened(declared("csv (path = 'rooms.csv')"), tmp_path, tmp_path)
    source.initial()
    rest = source.advance({"row": 1}, 10)
    assert (rest.end, rest.ended) == ({"row": 3}, True)
    assert source.read(rest).table.column("c0").to_pylist() == ["b", "c"]
