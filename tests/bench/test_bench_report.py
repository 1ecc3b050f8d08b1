"""Checks what a benchmark does with its numbers (medians, ratios, figures, tables, picture), and which arguments it
refuses.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from kigen_lab.bench.floor.benchmark import BETWEEN, STATE, phases_of
from kigen_lab.bench.lifetimes.benchmark import Cell, Settings, cell_json
from kigen_lab.bench.lifetimes.newer_queries import BY_NAME
from kigen_lab.bench.lifetimes.picture import draw_throughput
from kigen_lab.bench.lifetimes.settings import lifetimes_settings
from kigen_lab.bench.lifetimes.targets import figures
from kigen_lab.bench.steady import BatchEnd, steady_rate
from kigen_lab.bench.tables import lifetimes_tables
from rich.console import Console
from typer.testing import CliRunner

from kigen.cli.main import app
from kigen.engine import ArgumentError


def cell(name: str, kind: str, window: int, **rates: list[float]) -> dict[str, Any]:
    found = Cell(BY_NAME[name], kind, window, 1_000, BY_NAME[name].why_not_plain(kind))
    found.rates = {key.replace("_", " "): values for key, values in rates.items()}
    return cell_json(found)


def result() -> dict[str, Any]:
    cells = [
        cell("join", "range", 10, kigen_dt=[3e6, 9e6, 4e6], plain=[1e5], kernel_dt=[8e6], kernel_nt=[4e6]),
        cell("join", "range", 1_000, kigen_dt=[2e6], plain=[2e5], kernel_dt=[8e6], kernel_nt=[2e6]),
        cell("except", "rows", 10, kigen_dt=[1e6]),
    ]
    memory = {
        "query": "join",
        "kind": "range",
        "window": 1_000,
        "lifetime": "dt",
        "arrow_bytes": 30.0,
        "state_bytes": 60.0,
    }
    memory |= {"resident_bytes": 120.0, "state_over_arrow": 2.0, "resident_over_arrow": 4.0}
    machine = {"cores": 2, "processor": "p", "date": "d", "versions": {"pyspark": "4"}}
    return {"machine": machine, "settings": {"trials": 3}, "cells": cells, "memory": [memory], "plain_state_stores": {}}


def test_medians_and_ratios() -> None:
    first = result()["cells"][0]
    assert first["medians"]["kigen dt"] == 4_000_000
    assert first["ratios"] == {"kigen_over_plain": 40.0, "kigen_over_kernel": 0.5, "kernel_dt_over_nt": 2.0}


def test_the_worst_cell_decides_a_figure() -> None:
    found = {f.what: f for f in figures(result())}
    assert found["join, average over plain"].reached == 10.0
    assert found["join, average over plain"].met is False
    assert found["join, average over plain"].where == "join range 1,000"
    assert found["flatness"].reached == 0.5
    assert found["stateful end to end, M tuples/s"].where == "except rows 10"
    assert found["stateless over plain"].met is None
    assert found["memory per window tuple, saved state over Arrow"].met is True
    assert found["memory per window tuple, process growth over Arrow"].met is False


def test_newer_queries_have_figures_of_their_own() -> None:
    made = result()
    made["cells"] += [
        cell("left_join", "range", 10, kigen_dt=[9e6]),
        cell("left_join", "range", 10_000, kigen_dt=[2e6]),
        cell("left_join", "range", 1_000_000, kigen_dt=[1e6]),
        cell("session", "session", 10_000, kigen_dt=[1.5e6]),
        cell("median", "range", 10_000, kigen_dt=[1e5]),
    ]
    found = {f.what: f for f in figures(made)}
    assert found["flatness"].where.startswith("join"), "the paper's queries alone"
    rate, flat = [f for what, f in found.items() if "10,000" in what]
    assert (rate.reached, rate.met, rate.where) == (1.5, True, "session session 10,000")
    assert (flat.reached, flat.met) == (0.5, False)


def test_parts_and_kinds_of_queries() -> None:
    newer = lifetimes_settings(True, Path("out"), None, None, "rows", None, None, "newer")
    assert "left_join" in newer.queries
    assert not {"join", "average"} & set(newer.queries)
    assert newer.kinds_for(BY_NAME["left_join"]) == ("rows",)
    assert newer.kinds_for(BY_NAME["semi_join"]) == ()
    assert newer.kinds_for(BY_NAME["session"]) == ("session",)
    assert newer.tuples_for(BY_NAME["top10"], 10) == 4_000_000
    assert lifetimes_settings(True, Path("out"), ["join"], None, None, None, None, "newer").queries == ("join",)


def test_tables_and_picture(tmp_path: Path) -> None:
    made = result()
    made["cells"][1]["warnings"].append("plain: 7 rows")
    made["cells"] += [cell("until", "until", window, kigen_dt=[1e6]) for window in (10, 1_000)]
    console = Console(width=160, file=io.StringIO())
    with console.capture() as captured:
        console.print(lifetimes_tables(made))
    text = captured.get()
    assert "cannot" in text
    assert "WARNING join range 1,000: plain: 7 rows" in text
    draw_throughput(made, tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 5_000


def test_tuples_fill_whole_batches_after_the_window_is_full() -> None:
    settings, projection, join = (
        Settings(tuples=3_500_000, kernel_tuples=1_000_000, batch_rows=300_000),
        BY_NAME["projection"],
        BY_NAME["join"],
    )
    assert settings.tuples_for(projection, 10) == 3_600_000
    assert settings.tuples_for(join, 10) == 1_800_000
    assert settings.tuples_for(join, 1_000_000) == 4_200_000
    assert settings.tuples_for(join, 10_000_000) == 13_200_000
    assert settings.kernel_tuples_for(10) == 1_500_000
    assert settings.kernel_tuples_for(1_000_000) == 4_200_000


def test_steady_state_leaves_out_what_is_not() -> None:
    slow, quick = (
        [BatchEnd(1, 1), BatchEnd(2, 2), BatchEnd(3, 4)],
        [BatchEnd(3.5, 8), BatchEnd(4, 12), BatchEnd(4.5, 16), BatchEnd(5.5, 17)],
    )
    assert steady_rate([*slow, *quick], 1) == 8.0, "neither the batches that grow nor the little one at the end"
    assert steady_rate([BatchEnd(i, i) for i in range(1, 9)], 5) == 1.0
    assert steady_rate([BatchEnd(1, 1), BatchEnd(2, 5)], 100) == 4.0


def test_phases_of_batches_after_the_first() -> None:
    batch = {
        "numInputRows": 1,
        "durationMs": {"triggerExecution": 9, "addBatch": 5},
        "stateOperators": [{"commitTimeMs": 2}],
    }
    answer = {"progress": [{**batch, "batchId": i} for i in range(7)], "commits_s": [0, 1, 2, 3, 4, 5, 5.5]}
    phases = phases_of(answer)
    assert [p["batch"] for p in phases if "batch" in p] == [9.0, 9.0]
    assert phases[0][STATE] == 2.0
    assert phases[-1] == {BETWEEN: 500.0}


@pytest.mark.parametrize(
    "wrong",
    [{"queries": ["joint"]}, {"windows": [1]}, {"trials": 0}, {"tuples": 5}],
    ids=["query", "window", "trials", "tuples"],
)
def test_wrong_arguments(wrong: dict[str, Any], tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "quick": True,
        "out": tmp_path,
        "queries": None,
        "windows": None,
        "kind": None,
        "trials": None,
        "tuples": None,
    }
    with pytest.raises(ArgumentError):
        lifetimes_settings(**{**given, **wrong})


def test_an_unknown_benchmark_is_answered_with_the_list() -> None:
    done = CliRunner().invoke(app, ["bench", "nonsense"])
    assert done.exit_code == 2
    assert "lifetimes, floor" in done.output
