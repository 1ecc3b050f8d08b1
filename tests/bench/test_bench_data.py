"""Checks the paper's streams: as printed there, the same however they are cut into files, and made once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kigen_lab.bench.lifetimes.data import START_US, arrow_tuple_bytes, make_data, stream_table
from kigen_lab.bench.lifetimes.newer_queries import NEWER
from kigen_lab.bench.lifetimes.queries import KINDS, QUERIES, PaperQuery, app_text, query_name

from kigen.plan import bind


def test_rows_are_those_of_the_paper() -> None:
    rows = [tuple(row.values())[:3] for row in stream_table("stru", 0, 6).to_pylist()]
    assert rows == [("a", 0, "v"), ("a", 1, "u"), ("b", 2, "w"), ("b", 3, "v"), ("a", 4, "v"), ("a", 5, "u")]
    rows = [tuple(row.values())[:3] for row in stream_table("strb1", 0, 6).to_pylist()]
    assert rows == [(535, "a", 0), (536, "b", 1), (537, "c", 2), (538, "d", 3), (539, "e", 4), (540, "a", 5)]


@pytest.mark.parametrize(("stream", "late_us"), [("stru", 0), ("strb0", 0), ("strb1", 500)])
def test_one_tuple_a_millisecond(stream: str, late_us: int) -> None:
    times = stream_table(stream, 3, 6)["ts"].cast(pa.int64()).to_pylist()
    assert times == [START_US + late_us + i * 1000 for i in (3, 4, 5)]


def test_leases_end_in_no_order_and_a_window_ahead_on_average() -> None:
    table = stream_table("strl", 0, 10_000, 100)
    ahead = [
        until - at for until, at in zip(*(table[c].cast(pa.int64()).to_pylist() for c in ("cc", "ts")), strict=True)
    ]
    assert 50_000 <= min(ahead) < 51_000 < 149_000 < max(ahead) <= 150_000
    assert sum(ahead) / len(ahead) == pytest.approx(100_000, rel=0.01)
    assert table["cb"].to_pylist() == stream_table("strv", 0, 10_000)["cb"].to_pylist()
    assert table.slice(7_000).equals(stream_table("strl", 7_000, 10_000, 100))


def test_files_hold_the_stream_and_are_made_once(tmp_path: Path) -> None:
    data = make_data(tmp_path, ("strb0", "strb1"), 2_001, 300)
    assert (data.tuples, data.per_stream) == (2_000, 1_000)
    parts = sorted(Path(data.paths["strb1"]).iterdir())
    assert [pq.read_metadata(part).num_rows for part in parts] == [300, 300, 300, 100]
    assert pa.concat_tables([pq.read_table(part) for part in parts]).equals(stream_table("strb1", 0, 1_000))
    before = [part.stat().st_mtime_ns for part in parts]
    assert make_data(tmp_path, ("strb0", "strb1"), 2_001, 300) == data
    assert [part.stat().st_mtime_ns for part in sorted(Path(data.paths["strb1"]).iterdir())] == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.name)
def test_every_query_is_an_app(query: PaperQuery, kind: str) -> None:
    app = bind(app_text(query, kind, 100, {}, "results"))
    assert [q.name for q in app.queries] == [query_name(query)]
    assert app.queries[0].streams == query.streams


@pytest.mark.parametrize(
    ("query", "kind"), [(q, k) for q in NEWER for k in q.kinds], ids=lambda p: getattr(p, "name", p)
)
def test_every_newer_query_is_an_app(query: PaperQuery, kind: str) -> None:
    app = bind(app_text(query, kind, 100, {}, "results"))
    assert sorted(app.queries[0].streams) == sorted(query.streams)


def test_size_of_a_tuple_in_arrow() -> None:
    assert 24 < arrow_tuple_bytes("stru", 1_000) < 32
