"""Checks `kigen bench deadlines` without Spark: the app, what is computed from reports, the table and the picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kigen_lab.bench.deadlines.admission_cost import measure_admission
from kigen_lab.bench.deadlines.benchmark import (
    BATCHES,
    CLASSES_S,
    QUERIES,
    DeadlinesSettings,
    app_text,
    cell_of,
    least_sdmr,
    median_cell,
    saturated_rate,
)
from kigen_lab.bench.deadlines.least_missed import least_missed
from kigen_lab.bench.deadlines.report import deadlines_table, draw_deadlines
from rich.console import Console

from kigen.connectors import LiveSource, open_source
from kigen.plan import bind


def test_the_app_has_bursts_of_four_times_the_mean_at_moments_of_their_own() -> None:
    app = bind(app_text(200.0, 100.0, DeadlinesSettings()))
    assert [q.deadline_us for q in app.queries[:6]] == [c * 1_000_000 for c in (*CLASSES_S, CLASSES_S[0])]
    assert all(q.firm and q.cost_us == 150 for q in app.queries)
    peaks = set()
    for stream in app.streams:
        source = open_source(stream, ".", False, 0)
        assert isinstance(source, LiveSource)
        seconds = [source.arrived_by(t * 100_000) - source.arrived_by((t - 10) * 100_000) for t in range(10, 200)]
        assert 3.2 < max(seconds) / 200 < 5.0
        assert 0.8 < source.arrived_by(100_000_000) / 20_000 < 1.2
        peaks.add(seconds.index(max(seconds)))
    assert len(peaks) > QUERIES / 2


def test_capacity_is_that_of_the_long_batches() -> None:
    commits = [(1.0, 10), (2.0, 30), (4.0, 100), (10.0, 400), (20.0, 900)]
    assert saturated_rate(commits) == QUERIES * 50
    with pytest.raises(ValueError, match="too short"):
        saturated_rate([(1.0, 10)])


def report_with(missed: int, shed: int) -> dict[str, Any]:
    query = {"in": 1000, "missed": missed, "shed": shed, "latency_ms": {"p50": 1.0, "p95": 900.0, "p99": 1.0}}
    return {
        "queries": {f"q{i}": query for i in range(QUERIES)},
        "wall_s": 10.0,
        "batches": 7,
        "batch_ms": {"p50": 400.0, "p95": 1.0},
        "costs": {"fixed_us": 1.0, "tasks": {}},
    }


def test_cells_count_what_was_late_or_shed_class_by_class(tmp_path: Path) -> None:
    cell = cell_of("1.3", 1.3, "pack", {"report": report_with(50, 150)}, 0.125, 10.0)
    assert cell["sdmr"] == cell["classes"]["5.0"]["sdmr"] == 0.2
    assert (cell["goodput"], cell["classes"]["1.0"]["in"]) == (QUERIES * 80.0, 4000)
    other = cell_of("safe", 0.6, "all", {"report": report_with(0, 0)}, 0.0, 10.0)
    result = {
        "cells": [cell, other, {**other, "policy": "pack"}, {**cell, "policy": "all"}],
        "classes_s": list(CLASSES_S),
        "fixed_s": 0.15,
        "capacity": 9000.0,
        "machine": {"cores": 2, "date": "today"},
        "settings": {"seconds": 60.0},
        "alone": {"all": [2e6, 1e6, 4e6], "pack": [1e6, 1.9e6, 3e6], BATCHES: [2e6] * 3},
        "admission": [measure_admission("pack", queries=3, waiting=20, triggers=3)],
    }
    draw_deadlines(result, tmp_path / "d.png")
    assert (tmp_path / "d.png").stat().st_size > 10_000
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(deadlines_table(result))
    shown = console.export_text(clear=False)
    for text in ("0.60 (safe)", "12.50", "pack over all 0.950", "pack over --epoch 0 0.950", "with 3 queries"):
        assert text in shown


def test_of_several_trials_the_median_counts() -> None:
    trials = [cell_of("1.3", 1.3, "pack", {"report": report_with(n, 0)}, 0.0, 10.0) for n in (300, 100, 200)]
    assert median_cell(trials)["classes"] == trials[2]["classes"]
    assert median_cell(trials)["sdmr_of_trials"] == [0.3, 0.1, 0.2]


def most_in_time(releases: list[int], ends: list[int]) -> int:
    """Returns the most tuples of one slot each that can be in time: a matching of tuples to slots, by augmenting
    paths.
    """
    taken: dict[int, int] = {}

    def place(tuple_: int, seen: set[int]) -> bool:
        for slot in range(releases[tuple_], ends[tuple_]):
            if slot not in seen:
                seen.add(slot)
                if slot not in taken or place(taken[slot], seen):
                    taken[slot] = tuple_
                    return True
        return False

    return sum(place(i, set()) for i in range(len(releases)))


@pytest.mark.parametrize("seed", range(30))
def test_the_bound_is_that_of_the_best_schedule(seed: int) -> None:
    """With a slot of one microsecond, times are slots."""
    rng = np.random.default_rng(seed)
    deadlines = rng.integers(1, 12, 3).tolist()
    arrivals = [np.sort(rng.integers(0, 20, rng.integers(1, 16))) for _ in deadlines]
    releases = [int(t) for at in arrivals for t in at]
    ends = [int(t) + due for at, due in zip(arrivals, deadlines, strict=True) for t in at]
    assert least_missed(arrivals, deadlines, 1e6) == len(releases) - most_in_time(releases, ends)


def test_the_bound_of_an_app_is_near_the_surplus_at_a_steady_load() -> None:
    settings = DeadlinesSettings()
    text = app_text(50.0, 240.0, settings, "constant")
    assert least_sdmr(text, 2000.0) == 0.0
    assert least_sdmr(text, 1000.0 / 1.3) == pytest.approx(1 - 1 / 1.3, abs=0.01)
    assert least_sdmr(app_text(50.0, 240.0, settings), 1000.0 / 1.3) > least_sdmr(text, 1000.0 / 1.3)
