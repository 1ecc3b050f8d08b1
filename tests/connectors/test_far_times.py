"""Tests times at the edges: rows before the year 1, after 9999, or further ahead than AHEAD allows are bad rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kigen.connectors import open_source
from kigen.connectors.ahead import without_far
from kigen.connectors.source_base import InputError, LiveSource, Rows
from kigen.language import CqlErrors
from kigen.lifetimes.blocks import BEFORE_TIME, FOREVER, StreamBlock
from kigen.lifetimes.windows.kinds import make_window
from kigen.lifetimes.windows.window_operators import later
from kigen.plan import bind
from kigen.plan.logical import SourceStream, Window, WindowKind

STARTED_US = 1_767_225_600_000_000  # 2026-01-01
GOOD = ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", "2026-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"]
BAD = [
    "0000-12-31T23:59:59Z",
    "10000-01-01T00:00:00Z",
    "-0044-03-15T00:00:00Z",
    "290000-01-01T00:00:00Z",
    "292278-01-01T00:00:00Z",
]
FAR = ["2026-01-01T01:00:00.000001Z", "2099-01-01T00:00:00Z"]


def stream(kind: str, more: str = "ON ERROR SKIP") -> SourceStream:
    columns = "(v BIGINT, ts TIMESTAMP, other TIMESTAMP) TIMESTAMP BY ts"
    return bind(f"CREATE STREAM s {columns} FROM {kind} (path = 'in.{kind}') {more};").streams[0]


def write(folder: Path, kind: str, times: list[str]) -> None:
    if kind == "csv":
        text = "v,ts,other\n" + "".join(f"{i},{t},\n" for i, t in enumerate(times))
    else:
        text = "".join(f'{{"v": {i}, "ts": "{t}"}}\n' for i, t in enumerate(times))
    (folder / f"in.{kind}").write_text(text, encoding="utf-8")


def read(declared: SourceStream, folder: Path) -> Rows:
    source = open_source(declared, str(folder), True, STARTED_US)
    return source.read(source.advance(source.initial(), 1000))


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_years_beyond_four_digits_are_bad_rows(kind: str, tmp_path: Path) -> None:
    write(tmp_path, kind, GOOD)
    assert read(stream(kind), tmp_path).table["c0"].to_pylist() == [0, 1, 2, 3]
    write(tmp_path, kind, [*GOOD, *BAD])
    found = read(stream(kind), tmp_path)
    assert found.table["c0"].to_pylist() == [0, 1, 2, 3]
    assert found.skipped == len(BAD)
    with pytest.raises(InputError, match="TIMESTAMP required"):
        read(stream(kind, ""), tmp_path)


@pytest.mark.parametrize("column", ["ts", "other"])
def test_any_number_may_stand_in_parquet(column: str, tmp_path: Path) -> None:
    edges = [2**63 - 1, -(2**63), 2**62, -(2**62), 253_402_300_800_000_000, -62_135_596_800_000_001]
    fine = [0, 253_402_300_799_999_999, -62_135_596_800_000_000]
    values = [*edges, *fine]
    times = {"ts": [0] * len(values), "other": [0] * len(values)} | {column: values}
    columns = {"v": pa.array(range(len(values)))} | {name: pa.array(v, pa.timestamp("us")) for name, v in times.items()}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    found = read(stream("parquet"), tmp_path)
    assert found.skipped == len(edges)
    assert found.table["c0"].to_pylist() == [6, 7, 8]
    with pytest.raises(InputError, match="row 1: TIMESTAMP required"):
        read(stream("parquet", ""), tmp_path)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_ahead_of_a_file_counts_from_the_start_of_the_run(kind: str, tmp_path: Path) -> None:
    times = ["2026-01-01T00:00:00Z", *FAR, "2026-01-01T01:00:00Z"]
    if kind == "parquet":
        stamps = pa.array([t.removesuffix("Z") for t in times]).cast(pa.timestamp("us"))
        pq.write_table(pa.table({"v": range(4), "ts": stamps, "other": stamps}), tmp_path / "in.parquet")
    else:
        write(tmp_path, kind, times)
    assert read(stream(kind), tmp_path).skipped == 0, "a file may be dated as it likes"
    found = read(stream(kind, "AHEAD 1 HOURS ON ERROR SKIP"), tmp_path)
    assert (found.table["c0"].to_pylist(), found.skipped) == ([0, 3], 2)
    assert "AHEAD allows rows of this run up to 2026-01-01T01:00:00Z" in found.errors[0]
    with pytest.raises(InputError, match="too far ahead"):
        read(stream(kind, "AHEAD 1 HOURS"), tmp_path)


class _Live(LiveSource):
    def __init__(self) -> None:
        self.live = True

    def _no(self, *_: Any) -> Any:
        raise NotImplementedError

    initial = advance = read = fraction = arrived_by = arrivals_us = complete_us = total = _no


@pytest.mark.parametrize(
    ("clause", "kept"), [("", [0, 1]), ("AHEAD 10 SECONDS", [0]), ("AHEAD 100000 HOURS", [0, 1, 2])]
)
def test_ahead_of_a_live_stream_counts_from_arrival(clause: str, kept: list[int]) -> None:
    """The default is an hour. The decision depends only on the row and its arrival."""
    text = "CREATE STREAM s (v BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM synthetic (rate = 1) {} ON ERROR SKIP;"
    declared = bind(text.format(clause)).streams[0]
    arrivals = np.array([STARTED_US] * 3)
    dated = pa.array(arrivals + np.array([5_000_000, 3_600_000_000, 3_600_000_001]))
    rows = Rows(
        pa.table({"c0": pa.array([0, 1, 2]), "c1": dated.cast(pa.timestamp("us")), "_ts": dated}), arrivals_us=arrivals
    )
    found = without_far(rows, declared, _Live())
    assert found.table["c0"].to_pylist() == kept
    assert found.arrivals_us is not None
    assert len(found.arrivals_us) == len(kept)
    assert found.skipped == 3 - len(kept)
    if found.skipped:
        with pytest.raises(InputError, match="in the future"):
            without_far(rows, bind(text.format(clause).replace("ON ERROR SKIP", "")).streams[0], _Live())


def test_ahead_needs_a_timestamp_column() -> None:
    with pytest.raises(CqlErrors, match="needs TIMESTAMP BY"):
        bind("CREATE STREAM s (v BIGINT) FROM synthetic (rate = 1) AHEAD 5 SECONDS;")


@pytest.mark.parametrize(
    ("size", "slide"), [(1, None), (10**18, None), (2**62, None), (2**63 - 1, None), (2**62, 7), (1000, 2**62), (5, 5)]
)
def test_the_end_of_a_window_does_not_wrap(size: int, slide: int | None) -> None:
    declared = bind(
        "CREATE STREAM s (v BIGINT) FROM synthetic (rate = 1); CREATE QUERY q AS SELECT v FROM s [NOW];"
    ).queries[0]
    (window,) = [node for node in declared.root.walk() if isinstance(node, Window)]
    operator = make_window(Window(window.child, WindowKind.RANGE, size, slide), 0)
    at = np.array([BEFORE_TIME, 0, 2**62, 2**63 - 2], np.int64)
    columns = pa.RecordBatch.from_pydict({"c0": pa.array(range(4))})
    block = operator.step([StreamBlock(columns, at, np.arange(4))], int(FOREVER))
    assert (block.start <= block.end).all()
    exact = [min(int(FOREVER), int(a) + size) for a in at]
    if slide is None:
        assert block.end.tolist() == exact
    else:
        births = [min(int(FOREVER), -(-int(a) // slide) * slide) for a in at]
        deaths = [min(int(FOREVER), -(-(int(a) + size) // slide) * slide) for a in at]
        expected = [pair for pair in zip(births, deaths, strict=True) if pair[0] < pair[1]]
        assert list(zip(block.start.tolist(), block.end.tolist(), strict=True)) == expected
    assert later(at, 2**63 - 1).tolist()[-1] == FOREVER
