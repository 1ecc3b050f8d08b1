"""Metrics: latencies, deadlines, and what outlives a restart."""

from __future__ import annotations

import json

from kigen.plan.logical import App, Query, Scan
from kigen.plan.types import Column, Type
from kigen.spark.sink.metrics import Histogram, Metrics

APP = App((), (Query("q", Scan("s", (Column("a", Type.BIGINT),)), deadline_us=1_000_000),))
NOTE = {
    "admitted_us": 1_600_000,
    "done_us": 1_900_000,
    "counts": {"q": {"in": 10, "late": 2}},
    "skipped": {"s": [3, []]},
    "shed": {"s": 10},
    "dropped": {"s": 5},
    "arrivals": {"s": [[0, 4], [1_500_000, 6]]},
}


def test_quantiles_are_within_two_percent() -> None:
    histogram = Histogram()
    for ms in range(1, 1001):
        histogram.add(ms * 1000)
    for percent in (50, 95, 99):
        found = histogram.quantile_ms(percent / 100)
        assert found is not None
        assert abs(found / (percent * 10) - 1) < 0.02
    assert Histogram().quantiles_ms(50) == {"p50": None}


def test_tuples_beyond_the_deadline_are_missed_and_all_of_it_survives_json() -> None:
    metrics = Metrics.fresh(APP)
    metrics.step(APP, NOTE)
    metrics.committed(APP, NOTE, 2_000_000, NOTE["counts"])
    metrics = Metrics.from_json(json.loads(json.dumps(metrics.to_json())))
    report = metrics.queries["q"].report(1_000_000)
    assert (report["in"], report["late"], report["skipped"], report["missed"], report["shed"], report["dropped"]) == (
        25,
        2,
        3,
        4,
        10,
        5,
    )
    assert report["sdmr"] == 19 / 25
    assert report["missed_ms"] == {"waiting": 1600.0, "running": 300.0, "committing": 100.0}
    assert abs(report["latency_ms"]["p50"] - 500) < 10
    assert abs(report["latency_ms"]["p99"] - 2000) < 40
