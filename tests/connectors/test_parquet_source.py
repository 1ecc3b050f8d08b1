"""Tests the parquet source: any cut over files and row groups, units and zones of timestamps, lossless casts."""

from __future__ import annotations

import decimal
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kigen.connectors import InputError, Range, open_source

NOON = pa.array([1_000_000], pa.timestamp("us", "UTC"))


def write(path: Path, columns: dict[str, Any], **options: Any) -> None:
    pq.write_table(pa.table(columns), path, **options)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 7)), min_size=1, max_size=3),
    st.lists(st.integers(1, 11), min_size=1, max_size=4),
)
def test_any_cut_over_files_and_groups(
    tmp_path_factory: Any, make_stream: Any, read_all: Any, files: list[tuple[int, int]], sizes: list[int]
) -> None:
    folder, at = tmp_path_factory.mktemp("parts"), 0
    for number, (count, group) in enumerate(files):
        ids = np.arange(at, at + count)
        at += count
        table = {
            "extra": ids,
            "ts": pa.array(ids * 1000, pa.timestamp("us")),
            "name": [f"n{i}" if i % 3 else None for i in ids],
        }
        write(
            folder / f"p{number}.parquet", {**table, "name": pa.array(table["name"], pa.string())}, row_group_size=group
        )
    stream = make_stream("parquet", "name STRING, ts TIMESTAMP", path=".")
    source = open_source(stream, str(folder), True, None)
    table = read_all(source, sizes).table
    assert table["_ts"].to_pylist() == [i * 1000 for i in range(at)]
    assert table["c0"].to_pylist() == [f"n{i}" if i % 3 else None for i in range(at)]
    assert table.schema.types == [pa.string(), pa.timestamp("us"), pa.int64()]
    if at:
        piece = source.advance(source.initial(), sizes[0])
        assert piece.rows is not None
        assert piece.last_ts_us == (piece.rows - 1) * 1000
        assert source.fraction(piece.end) == pytest.approx(piece.rows / at)


@pytest.mark.parametrize(
    "moments",
    [
        pa.array([1], pa.timestamp("s")),
        pa.array([1_000], pa.timestamp("ms")),
        pa.array([1_000_000], pa.timestamp("us")),
        pa.array([1_000_000_000], pa.timestamp("ns")),
        pa.array([1_000_000], pa.timestamp("us", "UTC")),
        pa.array([1_000_000], pa.timestamp("us", "Asia/Tokyo")),
        pa.array([1_000_000_000], pa.timestamp("ns", "+09:00")),
    ],
)
def test_timestamps_of_any_unit_and_zone(tmp_path: Path, make_stream: Any, read_all: Any, moments: pa.Array) -> None:
    write(tmp_path / "in.parquet", {"ts": moments})
    source = open_source(make_stream("parquet", "ts TIMESTAMP", path="in.parquet"), str(tmp_path), True, None)
    assert read_all(source).table.to_pylist() == [{"c0": datetime(1970, 1, 1, 0, 0, 1), "_ts": 1_000_000}]


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        (pa.array([5], pa.int8()), "BIGINT", 5),
        (pa.array([5], pa.uint64()), "BIGINT", 5),
        (pa.array([5.0]), "BIGINT", 5),
        (pa.array([decimal.Decimal("5.00")]), "BIGINT", 5),
        (pa.array([5], pa.int64()), "DOUBLE", 5.0),
        (pa.array([0.5], pa.float32()), "DOUBLE", 0.5),
        (pa.array([decimal.Decimal("0.25")]), "DOUBLE", 0.25),
        (pa.array(["a"], pa.large_string()), "STRING", "a"),
        (pa.array(["a"]).dictionary_encode(), "STRING", "a"),
        (pa.array([None], pa.null()), "STRING", None),
        (pa.array([True]), "BOOLEAN", True),
        (pa.array([date(1970, 1, 2)]), "TIMESTAMP", datetime(1970, 1, 2)),
    ],
)
def test_casts_that_lose_nothing(
    tmp_path: Path, make_stream: Any, read_all: Any, values: pa.Array, type_: str, expected: Any
) -> None:
    write(tmp_path / "in.parquet", {"ts": NOON, "v": values})
    source = open_source(
        make_stream("parquet", f"ts TIMESTAMP, v {type_}", path="in.parquet"), str(tmp_path), True, None
    )
    assert read_all(source).table["c1"].to_pylist() == [expected]


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (pa.array([1, 2**63], pa.uint64()), "BIGINT"),
        (pa.array([1.0, 1.5]), "BIGINT"),
        (pa.array([1, 2**53 + 1], pa.int64()), "DOUBLE"),
        (pa.array([1000, 1], pa.timestamp("ns")), "TIMESTAMP"),
    ],
)
def test_a_value_that_does_not_fit_is_a_bad_row(
    tmp_path: Path, make_stream: Any, read_all: Any, values: pa.Array, type_: str
) -> None:
    write(tmp_path / "in.parquet", {"ts": pa.array([0, 1], pa.timestamp("us")), "v": values})
    for skip in (False, True):
        stream = make_stream("parquet", f"ts TIMESTAMP, v {type_}", path="in.parquet", skip=skip)
        source = open_source(stream, str(tmp_path), True, None)
        if skip:
            assert read_all(source, [1]).skipped == read_all(source).skipped == 1
        else:
            with pytest.raises(InputError, match=f"row 2: {type_} required") as caught:
                read_all(source)
            assert caught.value.field == "v"


def test_a_null_timestamp_is_a_bad_row(tmp_path: Path, make_stream: Any, read_all: Any) -> None:
    write(tmp_path / "in.parquet", {"ts": pa.array([1, None, 2], pa.timestamp("us"))}, row_group_size=1)
    source = open_source(make_stream("parquet", "ts TIMESTAMP", path="in.parquet"), str(tmp_path), True, None)
    with pytest.raises(InputError, match="row 2: the stream's timestamp is required"):
        read_all(source, [1])
    source = open_source(
        make_stream("parquet", "ts TIMESTAMP", path="in.parquet", skip=True), str(tmp_path), True, None
    )
    assert read_all(source).table["_ts"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("columns", "name", "says"),
    [
        ({"v": [1]}, "ts", "no such column; it has: v. It is required: it is the stream's timestamp"),
        ({"ts": NOON, "v": ["5"]}, "v", "BIGINT required, the file's column is string"),
        ({"ts": ["1970-01-01T00:00:00Z"], "v": [1]}, "ts", "TIMESTAMP required"),
    ],
)
def test_wrong_columns_are_found_before_anything_is_read(
    tmp_path: Path, make_stream: Any, columns: Any, name: str, says: str
) -> None:
    write(tmp_path / "in.parquet", columns)
    with pytest.raises(InputError, match=says) as caught:
        open_source(
            make_stream("parquet", "ts TIMESTAMP, v BIGINT", path="in.parquet"), str(tmp_path), True, None
        ).initial()
    assert caught.value.field == name


def test_a_type_that_changed_makes_bad_rows(tmp_path: Path, make_stream: Any, read_all: Any) -> None:
    """Only the values count: a NULL is a NULL. Without ON ERROR SKIP the run ends before anything is read."""
    (tmp_path / "in").mkdir()
    times = pa.array([0, 1, 2], pa.timestamp("us"))
    write(tmp_path / "in" / "a.parquet", {"ts": times, "v": [1, None, 3]}, row_group_size=2)
    write(tmp_path / "in" / "b.parquet", {"ts": times, "v": ["4", None, "six"]}, row_group_size=2)
    write(tmp_path / "in" / "c.parquet", {"ts": times, "v": [[7], None, None]}, row_group_size=2)

    def opened(**more: Any) -> Any:
        stream = make_stream("parquet", "ts TIMESTAMP, v BIGINT", path="in", **more)
        return open_source(stream, str(tmp_path), True, None)

    with pytest.raises(InputError, match=r"b\.parquet: field 'v': BIGINT required, the file's column is string"):
        opened().initial()
    rows = read_all(opened(skip=True))
    assert rows.table["c1"].to_pylist() == [1, None, 3, None, None, None]
    assert rows.skipped == 3
    assert "b.parquet: field 'v': row 1: BIGINT required, found '4'" in rows.errors[0]


def test_not_a_parquet_file(tmp_path: Path, make_stream: Any) -> None:
    (tmp_path / "in.parquet").write_text("ts\n")
    with pytest.raises(InputError, match="cannot be read as a parquet file"):
        open_source(make_stream("parquet", "ts TIMESTAMP", path="in.parquet"), str(tmp_path), True, None).initial()


def test_an_empty_range_has_the_declared_types(tmp_path: Path, make_stream: Any) -> None:
    write(tmp_path / "in.parquet", {"ts": NOON})
    source = open_source(make_stream("parquet", "ts TIMESTAMP", path="in.parquet"), str(tmp_path), True, None)
    table = source.read(Range("s", source.initial(), source.initial())).table
    assert table.schema.types == [pa.timestamp("us"), pa.int64()]
