"""Outputs that are tables made of files: Delta with its transaction identifiers, and partitioned parquet."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kigen.connectors import InputError, OptionError, Sink, open_sink
from kigen.connectors.parquet.partitioned import PartitionedParquetSink
from kigen.connectors.parquet.rolling import RollingParquetSink
from kigen.plan.logical import Connector
from kigen.plan.types import Column, Type

SCHEMA = (Column("room", Type.STRING), Column("n", Type.BIGINT), Column("t", Type.TIMESTAMP))
DAY = datetime(2026, 1, 2, 3, 4, 5)


def sink_of(kind: str, directory: Path, run: str = "run", schema: Any = SCHEMA, **options: Any) -> Sink:
    given = {"path": "out", **options}
    sink = open_sink(Connector(kind, tuple(given.items())), schema, False, str(directory), "q")
    sink.run_name = run
    return sink


def lines(*rows: tuple[str | None, int]) -> pa.Table:
    rooms, numbers = (list(c) for c in zip(*rows, strict=True))
    times = pa.array([DAY] * len(rows), pa.timestamp("us"))
    at = pa.array(numbers, pa.int64())
    return pa.table([pa.array(rooms, pa.string()), at, times, at, at], names=["c0", "c1", "c2", "_from", "_to"])


def delta_rows(directory: Path) -> list[tuple[Any, ...]]:
    table = DeltaTable(str(directory / "out")).to_pyarrow_table()
    return sorted(zip(table["room"].to_pylist(), table["n"].to_pylist(), strict=True), key=str)


def test_delta_columns_partitions_and_compaction(tmp_path: Path) -> None:
    sink = sink_of("delta", tmp_path, partition_by="Room", compact_every=3)
    assert sink.commits_per_epoch
    sink.open(None)
    for i in range(3):
        sink.write(lines(("a", i), ("b/c", i), (None, i)))
        sink.commit()
    sink.close()
    table = DeltaTable(str(tmp_path / "out"))
    assert table.metadata().partition_columns == ["room"]
    assert len(table.file_uris()) == 3, "nine small files are three after compaction"
    found = table.to_pyarrow_table()
    assert found.schema.field("_from").type == found.schema.field("t").type == pa.timestamp("us", "UTC")
    assert len(delta_rows(tmp_path)) == 9


@pytest.mark.parametrize("seed", range(3))
def test_delta_with_restarts_at_random(tmp_path: Path, seed: int) -> None:
    """The process dies between any two calls, before or after a position is recorded; each row is there once."""
    rng = Random(seed)
    given = done = 0
    recorded = None
    sink = sink_of("delta", tmp_path)
    sink.open(None)
    while done < 60:
        count = min(rng.randint(1, 15), 60 - given)
        if count:
            sink.write(lines(*((f"r{i % 3}", i) for i in range(given, given + count))))
            given += count
        if rng.random() < 0.6 or given == 60:
            position = sink.commit()
            if rng.random() < 0.6 or given == 60:
                recorded, done = position, given
        if rng.random() < 0.3 and given < 60:
            sink.close()
            sink = sink_of("delta", tmp_path)
            sink.open(recorded)
            given = done
    assert sorted(n for _, n in delta_rows(tmp_path)) == list(range(60))


def test_delta_keeps_rows_of_other_runs_and_refuses_other_tables(tmp_path: Path) -> None:
    for run in ("one", "two"):
        sink = sink_of("delta", tmp_path, run)
        sink.open(None)
        sink.write(lines((run, 1)))
        sink.commit()
    assert [room for room, _ in delta_rows(tmp_path)] == ["one", "two"]
    with pytest.raises(
        InputError, match="the Delta table has the columns room, n, t, _from, _to; required are a, _from, _to"
    ):
        sink_of("delta", tmp_path, schema=(Column("a", Type.STRING),)).open(None)
    with pytest.raises(InputError, match="partitioned by nothing, and partition_by says room"):
        sink_of("delta", tmp_path, partition_by="room").open(None)
    with pytest.raises(InputError, match="the checkpoint records 9 rows, and the output has 1"):
        sink_of("delta", tmp_path, "one").open({"rows": 9})


def test_delta_changes(tmp_path: Path) -> None:
    sink = sink_of("delta", tmp_path, mode="changes")
    sink.open(None)
    table = lines(("a", 1)).drop_columns(["_from", "_to"])
    sink.write(table.append_column("_at", pa.array([5])).append_column("_op", pa.array(["insert"])))
    sink.commit()
    assert DeltaTable(str(tmp_path / "out")).to_pyarrow_table()["_op"].to_pylist() == ["insert"]


def test_partitioned_parquet_and_its_cut(tmp_path: Path) -> None:
    sink = sink_of("parquet", tmp_path, partition_by="room, n")
    assert sink.encoder() is None
    sink.open(None)
    sink.write(lines(("a b", 1), ("a b", 2), (None, 1)))
    sink.write(lines(("a b", 1)))
    position = sink.commit()
    sink.write(lines(("late", 1), ("a b", 1)))
    sink.commit()
    sink.close()
    again = sink_of("parquet", tmp_path, partition_by="room, n")
    again.open(position)
    again.write(lines(("new", 3)))
    assert again.commit() == {"parts": 2}
    again.close()
    files = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.parquet"))
    assert files == [
        "room=__HIVE_DEFAULT_PARTITION__/n=1/part-00000.parquet",
        "room=a%20b/n=1/part-00000.parquet",
        "room=a%20b/n=2/part-00000.parquet",
        "room=new/n=3/part-00001.parquet",
    ]
    found = ds.dataset(tmp_path / "out", partitioning=ds.partitioning(flavor="hive")).to_table()
    rows = sorted(zip(found["room"].to_pylist(), found["n"].to_pylist(), strict=True), key=str)
    assert rows == sorted([("a b", 1), ("a b", 1), ("a b", 2), (None, 1), ("new", 3)], key=str)
    assert found["t"].to_pylist() == [DAY] * 5
    assert isinstance(again, PartitionedParquetSink)
    assert again.read().column_names == ["room", "n", "t", "_from", "_to"]
    assert sorted(again.read()["room"].to_pylist(), key=str) == [None, "a b", "a b", "a b", "new"]
    (tmp_path / "out" / files[-1]).unlink()
    with pytest.raises(InputError, match="no directory has part 1"):
        sink_of("parquet", tmp_path, partition_by="room, n").open({"parts": 2})


@pytest.mark.parametrize("seed", range(4))
def test_rolling_parquet_with_restarts_at_random(tmp_path: Path, seed: int) -> None:
    """Pieces become parts by size or by time; the process dies between any two calls; each row is there once."""
    rng, now = Random(seed), [0.0]

    def opened() -> RollingParquetSink:
        limits = (None, 5_000_000) if seed % 2 else (6_000, None)
        sink = RollingParquetSink(str(tmp_path / "out"), SCHEMA, False, False, *limits, clock=lambda: now[0])
        sink.open(recorded)
        return sink

    recorded, given, done = None, 0, 0
    sink = opened()
    while done < 100:
        now[0] += rng.random()
        count = min(rng.randint(0, 8), 100 - given)
        if count:
            sink.write(lines(*((f"r{i % 3}", i) for i in range(given, given + count))))
            given += count
        if rng.random() < 0.7 or given == 100:
            position = sink.commit()
            if rng.random() < 0.8 or given == 100:
                recorded, done = position, given
        if rng.random() < 0.25 and given < 100:
            if rng.random() < 0.5:
                sink.close()
            sink = opened()
            given = done
    sink.close()
    files = sorted((tmp_path / "out").glob("part-*.parquet"))
    assert 1 < len(files) < 15
    assert [n for file in files for n in pq.read_table(file)["n"].to_pylist()] == list(range(100))


def test_rolling_options(tmp_path: Path) -> None:
    sink = sink_of("parquet", tmp_path, roll_size="1 MB", roll_every="10 min")
    assert isinstance(sink, RollingParquetSink)
    assert sink.encoder() is None
    with pytest.raises(OptionError, match="partition_by and rolling exclude each other"):
        sink_of("parquet", tmp_path, roll_size="1 MB", partition_by="room")
