"""Rows that wait for a commit: the same rows in the same order, in few tables."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from kigen.connectors import open_sink
from kigen.connectors.parquet.waiting_rows import WaitingRows
from kigen.plan.logical import Connector
from kigen.plan.types import Column, Type


def table_of(first: int, count: int, kind: pa.DataType) -> pa.Table:
    return pa.table({"c0": pa.array(range(first, first + count), pa.int64()).cast(kind)})


@pytest.mark.parametrize("seed", range(20))
def test_any_mix_of_tables_gives_the_same_rows(seed: int) -> None:
    rng, waiting, rows = Random(seed), WaitingRows(), 0
    for _ in range(rng.randrange(400)):
        count = rng.choice((0, 1, 1, 2, 3, 5000))
        waiting.add(table_of(rows, count, rng.choice((pa.int64(), pa.int64(), pa.int64(), pa.int32()))))
        rows += count
        if rng.random() < 0.01:
            taken = [v for table in waiting.take() for v in table["c0"].to_pylist()]
            assert taken == list(range(rows))
            assert not waiting
            assert waiting.bytes == 0
            rows = 0
    assert bool(waiting) == bool(rows)
    assert [v for table in waiting.take() for v in table["c0"].to_pylist()] == list(range(rows))


def test_small_tables_of_one_schema_become_few() -> None:
    waiting = WaitingRows()
    for n in range(1000):
        waiting.add(table_of(n, 1, pa.int64()))
    assert len(waiting.take()) == 16


@pytest.mark.parametrize("options", [{}, {"roll_size": "1 MB"}, {"partition_by": "c"}], ids=["plain", "roll", "by"])
def test_what_was_committed_does_not_count_as_waiting(
    tmp_path: Path, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part is written at each commit, and between two only when much waits."""
    monkeypatch.setattr("kigen.connectors.parquet.sink._LARGEST_WAITING", 1000)
    schema = (Column("a", Type.BIGINT), Column("c", Type.BIGINT))
    given = tuple({"path": "out", **options}.items())
    sink = open_sink(Connector("parquet", given), schema, True, str(tmp_path), "q")
    sink.open(None)
    for first in range(0, 300, 30):
        for n in range(first, first + 30, 3):  # 720 bytes
            numbers = pa.array(range(n, n + 3), pa.int64())
            sink.write(pa.table([numbers, pa.array([1, 1, 1], pa.int64()), numbers], names=["c0", "c1", "_at"]))
        assert sink.commit()["pieces" if "roll_size" in options else "parts"] == first // 30 + 1
    sink.close()
    assert sorted(ds.dataset(tmp_path / "out").to_table()["a"].to_pylist()) == list(range(300))
