"""Checks a tiny benchmark of shared joins: the same rows however queries run, the state of one
join, and the figures.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kigen_lab.bench.shared_joins.app import Family, make_data, stream_table
from kigen_lab.bench.shared_joins.benchmark import SharedJoinsBench, SharedJoinsSettings, shared_joins_settings
from kigen_lab.bench.shared_joins.kernel import run_family
from kigen_lab.bench.shared_joins.overload import (
    LOADS,
    OverloadCell,
    OverloadSettings,
    overload_figures,
    wrong_counts,
)
from kigen_lab.bench.shared_joins.overload_report import draw_overload, overload_table
from kigen_lab.bench.shared_joins.report import draw_shared_joins, shared_joins_table
from rich.console import Console

from kigen.engine import ArgumentError
from kigen.plan import bind
from kigen.plan.shared_joins.slices import join_slices, why_together
from kigen.plan.tasks import extract_tasks


@pytest.mark.parametrize("lifetime", ["dt", "nt"])
@pytest.mark.parametrize("kind", ["range", "rows"])
def test_shared_and_separate_give_the_same_rows(kind: str, lifetime: str) -> None:
    shared = run_family(Family(7, 200, kind, True), lifetime, 1_500, 400)
    separate = run_family(Family(7, 200, kind, False), lifetime, 1_500, 300)
    assert shared.tuples == separate.tuples == 3_000
    assert shared.rows == separate.rows > 1_000
    assert shared.held < separate.held
    assert separate.share_s == 0 < shared.share_s


def test_seven_queries_hold_the_tuples_of_one() -> None:
    one, seven = (run_family(Family(n, 200), "dt", 1_500, 300) for n in (1, 7))
    assert one.held == seven.held


def test_only_the_switch_makes_tasks_of_each() -> None:
    assert [len(extract_tasks(Family(5, 100, shared=s).app())) for s in (True, False)] == [1, 5]
    assert Family(4, 100).windows == [25, 50, 75, 100]


def test_a_stream_does_not_depend_on_how_it_is_cut(tmp_path: Path) -> None:
    whole = stream_table("l", 0, 25_000, 100)
    assert pa.concat_tables(
        [stream_table("l", a, b, 100) for a, b in ((0, 9_999), (9_999, 20_001), (20_001, 25_000))]
    ).equals(whole)
    paths = make_data(tmp_path, 1_000, 100, 300)
    assert [len(list(Path(p).iterdir())) for p in paths.values()] == [4, 4]


def test_result_table_and_picture(tmp_path: Path) -> None:
    settings = SharedJoinsSettings((1, 3), 100, each=1_000, batch_rows=400, trials=2, spark=False, out=tmp_path)
    steps: list[int] = []
    bench = SharedJoinsBench(settings, lambda _: None)
    result = bench.run(lambda: steps.append(1))
    assert len(steps) == bench.steps == 6
    assert [(c["queries"], c["plan"]) for c in result["cells"]] == [(1, "separate"), (3, "shared"), (3, "separate")]
    assert result["warnings"] == []
    assert result["figures"]["state_shared_over_one"] == 1.0
    result["warnings"] = [*bench._wrong(), "3 queries: 7 rows"]
    result["cells"][1]["spark_rate"] = result["cells"][2]["spark_rate"] = 1_000
    console = Console(width=160, file=io.StringIO())
    with console.capture() as captured:
        console.print(shared_joins_table(result))
    assert "matching and state, 3 shared over 1" in captured.get()
    assert "WARNING 3 queries: 7 rows" in captured.get()
    draw_shared_joins(result, tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 5_000


def test_different_numbers_of_rows_are_told() -> None:
    bench = SharedJoinsBench(SharedJoinsSettings((1, 3), spark=False), lambda _: None)
    bench.cells[1].rows, bench.cells[2].rows = {"kernel": 5}, {"kernel": 6}
    assert bench._wrong() == ["3 queries: shared kernel 5, separate kernel 6 rows"]


def test_settings() -> None:
    assert shared_joins_settings(False, Path("o"), [10], "range", "dt", True).queries == (1, 10)
    with pytest.raises(ArgumentError, match="at least one query"):
        shared_joins_settings(True, Path("o"), [0], "range", "dt", True)


def overload_cell(policy: str, dropped: list[int], finished: bool = True) -> dict[str, Any]:
    queries = {f"q{i}": {"in": 100 + i // 4, "dropped": n, "p50_ms": 10.0 * i} for i, n in enumerate(dropped)}
    return OverloadCell(policy, [{"queries": queries, "finished": finished}]).to_json()


@pytest.mark.parametrize("load", LOADS)
def test_the_overloaded_app_is_sliced_and_has_too_much_to_do(load: str) -> None:
    settings = OverloadSettings()
    app = bind(settings.app(load, 3))
    assert settings.load == 1.6
    assert sum(query.cost_us for query in app.queries) == pytest.approx(settings.cost_us, abs=2)
    assert [len(join_slices(task)) for task in extract_tasks(app)] == [1]
    assert why_together(extract_tasks(app)[0], app) is None
    assert settings.app(load, 0) != settings.app(load, 1), "each trial has other arrivals"


def test_costs_by_window_are_those_of_what_a_slice_adds() -> None:
    assert OverloadSettings().costs_us("by window") == [333, 333, 6_000, 13_333]
    assert OverloadSettings().costs_us("equal") == [5_000] * 4


def test_overload_figures_table_and_picture(tmp_path: Path) -> None:
    cells = [
        overload_cell("fifo", [20] * 4),
        overload_cell("mqt", [0, 0, 30, 50]),
        overload_cell("admandf", [10, 10, 32, 32]),
    ]
    figures = overload_figures(cells, (1, 2, 20, 60))
    assert (figures["mqt_narrow_met"], figures["mqt_met"], figures["mqt_over_fifo"]) == (True, True, 1.0)
    assert figures["admandf_over_better"] == 1.05
    assert figures["admandf_met"]
    assert not overload_figures([overload_cell("mqt", [0, 1, 30, 50])], (1, 2, 20, 60))["mqt_narrow_met"]
    broken = [overload_cell("mqt", [0] * 4, finished=False), overload_cell("salvage", [0] * 5)]
    assert [text.partition(":")[0] for text in wrong_counts(broken)] == ["mqt, trial 1", "salvage, trial 1"]
    assert wrong_counts(cells) == []
    machine = {"cores": 2, "processor": "p", "date": "d"}
    settings = {"windows_s": (1, 2, 20, 60), "load": 1.6, "buffer": 200, "seconds": 40, "trials": 1}
    load = {"costs": "equal", "costs_us": [5_000] * 4, "cells": cells, "figures": figures, "warnings": []}
    result = {"machine": machine, "settings": settings, "loads": [load, {**load, "costs": "by window"}]}
    console = Console(file=io.StringIO(), width=200)
    console.print(overload_table(result))
    told = console.file.getvalue()
    assert "drops of admandf over the better of fifo and mqt: 1.05" in told
    assert "NO" not in told
    draw_overload(result, tmp_path / "overload.png")
    assert (tmp_path / "overload.png").stat().st_size > 5_000
