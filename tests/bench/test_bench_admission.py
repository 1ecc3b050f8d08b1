"""Checks `kigen bench admission`: rounds of a real lane with the news that a cell says, and its table."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from kigen_lab.bench.admission.report import admission_table
from kigen_lab.bench.admission.rounds import ROUND_US, START_US, AdmissionSettings, lane_of, run_admission_bench
from rich.console import Console

from kigen.spark.admission.lane import RoundDone
from kigen.spark.rounds import round_log


@pytest.mark.parametrize("news", [1, 3, 5])
def test_a_round_has_the_streams_with_news(tmp_path: Path, news: int) -> None:
    lane = lane_of(5, news, tmp_path)
    first = lane.next(RoundDone(), START_US + 1, False)
    assert first is not None
    assert len(first.entry.taken) == 5, "each stream has a tuple at the start"
    for number in range(1, 4):
        done = RoundDone(number, 1000, dict.fromkeys([f"task{i}" for i in range(5)], 20.0))
        found = lane.next(done, START_US + number * ROUND_US + 1, False)
        assert found is not None
        rows = {task: given["ranges"][0]["rows"] for task, given in found.entry.taken.items()}
        assert rows == {f"task{i}": 1 for i in range(news)}
    lane.close()
    (path,) = round_log.lanes(tmp_path, 1)
    assert [len(entry.taken) for entry in round_log.read(path)[0]] == [5, news, news, news]


def test_the_table_shows_all_cells(tmp_path: Path) -> None:
    settings = AdmissionSettings((2, 4), (1, 0), 5, 2, out=tmp_path)
    steps: list[None] = []
    result = run_admission_bench(settings, lambda _: None, lambda: steps.append(None))
    assert [(cell["queries"], cell["news"]) for cell in result["cells"]] == [(2, 1), (2, 2), (4, 1), (4, 4)]
    assert len(steps) == 8
    assert all(cell["round_ms"] >= cell["decision_ms"] > 0 for cell in result["cells"])
    assert result["figure"] is None, "300 queries were not measured"
    figure = {"queries": 300, "target_ms": 2.0, "reached_ms": 2.5, "met": False}
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(admission_table({**result, "figure": figure}))
    shown = console.export_text()
    for text in ("streams with news", "300 queries, all with news: 2.50 ms", "NO"):
        assert text in shown
