"""Checks `kigen bench placement` on a tiny size: gaps agree with bounds, table and picture are made, Ctrl-C loses
nothing.
"""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from kigen_lab.bench.placement import benchmark
from kigen_lab.bench.placement.benchmark import (
    PlacementSettings,
    Size,
    draw_placement_bench,
    placement_table,
    run_placement_bench,
)
from rich.console import Console


@pytest.fixture(scope="module")
def settings() -> PlacementSettings:
    return PlacementSettings((Size(2, 12, 20, 0.01), Size(3, 20, 20)), (0.0, 0.3), seed=3)


def test_it_measures(settings: PlacementSettings, tmp_path: Path) -> None:
    steps: list[str] = []
    result = run_placement_bench(settings, steps.append, lambda: None)
    assert len(result["cells"]) == len(steps) == 4
    for cell in result["cells"]:
        assert cell["bound"] <= cell["model"]["traffic"] * (1 + 1e-9)
        assert cell["model"]["traffic"] <= cell["heuristic"]["traffic"] * (1 + 1e-9) or not cell["model"]["fits"]
        assert cell["model"]["gap"] <= 0.01
    assert result["cells"][0]["figure"]["reached"] is True
    assert result["cells"][2]["figure"] is None
    console = Console(width=200, record=True, file=StringIO())
    console.print(placement_table(result))
    assert "<= 1 % in 20 s" in console.export_text()
    draw_placement_bench(result, tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 5_000


def test_ctrl_c_keeps_what_was_measured(settings: PlacementSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = benchmark._cell

    def cell(given: PlacementSettings, size: Size, sharing: float) -> dict[str, object]:
        if sharing > 0:
            raise KeyboardInterrupt
        return measured(given, size, sharing)

    monkeypatch.setattr(benchmark, "_cell", cell)
    seen: list[str] = []
    assert len(run_placement_bench(settings, seen.append, lambda: None)["cells"]) == 1
    assert seen[-1].startswith("stopped")
