"""Checks `kigen bench latency` without Spark: the schedule, the app, what is computed, the table and the picture."""

from __future__ import annotations

import io
from contextlib import nullcontext
from pathlib import Path

import pytest
from kigen_lab.bench.latency.benchmark import (
    BATCHES,
    CONTESTANTS,
    PLAIN,
    ROUNDS,
    LatencyBench,
    LatencySettings,
    cell_of,
)
from kigen_lab.bench.latency.plain_latency import ScheduleReader, add_latencies
from kigen_lab.bench.latency.report import above_of, draw_latency, latency_table
from kigen_lab.bench.latency.schedule import Load, app_text, arrival_us, arrived_by
from kigen_lab.bench.worker import ContestantFailed
from rich.console import Console

from kigen.connectors import LiveSource, open_source
from kigen.plan import bind
from kigen.spark.sink.metrics import Histogram


@pytest.mark.parametrize("rate", [1, 3, 50, 1000])
def test_both_sides_have_the_same_schedule(rate: int) -> None:
    app = bind(app_text(Load(1, rate), "x"))
    source = open_source(app.streams[0], ".", False, 0)
    assert isinstance(source, LiveSource)
    assert source.arrivals_us(0, 50).tolist() == [arrival_us(i, rate) for i in range(50)]
    for at_us in (0, 1, 999_999, 1_000_000, 3_333_333, 3_333_334):
        assert arrived_by(at_us, rate) == source.arrived_by(at_us)


def test_every_query_has_its_stream_and_its_share_of_the_rate() -> None:
    app = bind(app_text(Load(20, 1000), "x"))
    assert len(app.streams) == len(app.queries) == 20
    assert {stream.source.option("rate") for stream in app.streams} == {50}


def test_plain_rows_come_when_they_are_scheduled() -> None:
    reader = ScheduleReader(10, start_us=0)
    rows, end = reader.read({"index": 5})
    assert end["index"] == 5 + len(list(rows)) == 5 + 50_000, "long ago, so a batch is full"
    ahead = ScheduleReader(10, start_us=2**60)
    rows, end = ahead.read({"index": 0})
    assert (list(rows), end) == ([], {"index": 0})
    assert [row[2] for row in ahead.readBetweenOffsets({"index": 0}, {"index": 2})] == [
        2**60 / 1e6,
        (2**60 + 1e5) / 1e6,
    ]


def test_latencies_of_plain_batches_count_from_each_tuples_schedule() -> None:
    def batch(number: int, first: object, end: object) -> dict[str, object]:
        return {"batchId": number, "numInputRows": 2, "sources": [{"startOffset": first, "endOffset": end}]}

    batches = [
        batch(0, None, '{"index": 2}'),
        batch(1, '{"index": 2}', {"index": 4}),
        batch(2, {"index": 4}, {"index": 6}),
    ]
    histogram = Histogram()
    add_latencies(histogram, {0: 1, 1: 1_000_000, 2: 9_000_000}, batches, 10, 0, (10, 2_000_000))
    assert sum(histogram.counts.values()) == 2, "only the batch within the time that counts"
    assert abs((histogram.quantile_ms(1.0) or 0) - 800) < 20
    assert abs((histogram.quantile_ms(0.5) or 0) - 700) < 20


def test_contestants_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = LatencySettings(queries=(1,), rates=(100,), durabilities=("power",), turns=2)
    assert LatencyBench(settings, lambda _: None).steps == 6


def test_a_contestant_that_fails_does_not_end_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(bench: LatencyBench, side: object, name: str, *_: object) -> dict[str, object]:
        if name == PLAIN:
            raise ContestantFailed("plain_side: worker failed to connect back")
        fast = Histogram()
        fast.add(1000)
        return {"histogram": fast.to_json(), "seconds": 1.0}

    monkeypatch.setattr(LatencyBench, "_ask", ask)
    monkeypatch.setattr("kigen_lab.bench.latency.benchmark.Contestant", lambda *_: nullcontext())
    settings = LatencySettings(queries=(1,), rates=(100,), durabilities=("power",), turns=1, out=tmp_path)
    result = LatencyBench(settings, lambda _: None).run(lambda: None)
    assert [cell["contestant"] for cell in result["cells"]] == [ROUNDS, BATCHES]
    assert result["failed"] == ["1 queries, 100/s, power: plain, turn 1: plain_side: worker failed to connect back"]


def test_cells_the_table_and_the_picture(tmp_path: Path) -> None:
    fast, slow = Histogram(), Histogram()
    for i in range(1000):
        fast.add(1000 + 10 * i)
        slow.add(300_000 + 1000 * i)
    cells = []
    for queries in (1, 20):
        for name in CONTESTANTS:
            histogram = fast if name == ROUNDS else slow
            answers = [{"histogram": histogram.to_json(), "seconds": 1.0}] * 2
            cells.append(cell_of(Load(queries, 1000), "power", name, answers))
    assert cells[0]["done"] == 1.0
    assert cells[0]["tuples"] == 2000
    assert abs(cells[0]["latency_ms"]["p50"] - 6) < 0.2
    assert cells[0]["latency_ms"]["p99.9"] <= 11.2
    assert sum(count for _, _, count in cells[1]["histogram_ms"]) == 2000
    settings = {"turns": 2, "seconds": 1.0}
    machine = {"cores": 2, "date": "today", "load_before": 0.1}
    result = {"cells": cells, "machine": machine, "settings": settings, "failed": ["20 queries: plain, turn 1"]}
    draw_latency(result, tmp_path / "latency.png")
    assert (tmp_path / "latency.png").stat().st_size > 10_000
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(latency_table(result))
    shown = console.export_text()
    for text in (ROUNDS, BATCHES, PLAIN, "p99.9", "100.0", "FAILED 20 queries: plain"):
        assert text in shown
    assert above_of([[1.0, 2.0, 3], [4.0, 5.0, 1]]) == [(1.0, 1.0), (2.0, 0.25), (5.0, 0.0)]


def test_a_histogram_knows_what_was_added_since() -> None:
    histogram = Histogram()
    histogram.add(1000, 3)
    before = histogram.copy()
    histogram.add(1000, 2)
    histogram.add(9000)
    assert sum(histogram.since(before).counts.values()) == 3
    (low, high, count), _ = histogram.since(before).bounds_ms()
    assert low <= 1.0 <= high
    assert count == 2
