"""Checks `kigen bench nodes` without runs: the apps are the paper's example, cut by the paper's allocations; table and
picture.
"""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pytest
from kigen_lab.bench.nodes.app import QUICK, NodesSettings, app_text, bursts, nodes_text, placements
from kigen_lab.bench.nodes.benchmark import (
    COMBINATIONS,
    PUBLISHED,
    broken_order,
    cell_of,
    in_virtual_time,
    micro_batches,
)
from kigen_lab.bench.nodes.report import draw_nodes, nodes_tables
from rich.console import Console

from kigen.placement.cutting import cut
from kigen.placement.from_plan import from_plan
from kigen.placement.nodes_file.parser import parse_nodes
from kigen.placement.solver.solve import Limits, solve
from kigen.plan.binder import bind
from kigen.plan.tasks import extract_tasks


def test_o3_is_where_the_models_put_it() -> None:
    assert {name: placed.nodes["O3"] for name, placed in placements().items()} == {
        "DeadlineAlloc": "node2",
        "ExistingAlloc": "node1",
    }


@pytest.mark.parametrize("o3", ["node1", "node2"])
def test_each_node_has_the_papers_tasks(o3: str) -> None:
    """Node 1 has T(O1) and T(O2[, O3]), node 2 has T([O3, ]O4..O21) and T(O6, O5). Sub-deadlines and costs are a
    hundred times the paper's.
    """
    settings = NodesSettings(stretch=100.0)
    app, nodes = bind(app_text(settings, o3)), parse_nodes(nodes_text(settings, o3, (1, 2)))
    planned = from_plan(app, nodes)
    parts = cut(app, nodes, planned, solve(planned.problem, time.monotonic, "deadline", Limits(10.0)))
    found = {
        name: [
            ({q.name for q in task.queries}, task.deadline_us, sum(q.cost_us or 0 for q in task.queries))
            for task in extract_tasks(part.app)
        ]
        for name, part in parts.items()
    }
    control, vehicles = found["node1"]
    assert control == ({"control"}, 3_000_000, 68_000)
    warning, information = found["node2"]
    assert information == ({"information"}, 300_000_000, 240_000)
    if o3 == "node2":
        assert vehicles[0] == {"o2", "o2.window"}
        assert vehicles[1] == pytest.approx(3_000_000, rel=0.1)  # of 30,000,000, a tenth of the work
        assert (vehicles[2], warning) == (68_000, ({"o3", "warning"}, 30_000_000, 120_000 + 960_000))
    else:
        assert vehicles[0] == {"o2", "o3", "o3.filter"}
        assert vehicles[1] == pytest.approx(6_000_000, rel=0.1)
        assert (vehicles[2], warning) == (136_000, ({"warning"}, 30_000_000, 1_920_000))


def test_every_combination_sees_the_same_tuples() -> None:
    settings = NodesSettings(activations=3)
    counts = bursts(settings)
    assert len(counts) == 3
    for count in counts:
        assert count["sensors"] > 0
        assert count["v2v"] > 0
        assert count["centre"] > count["v2v"]
    assert counts[:1] == bursts(NodesSettings(activations=1))
    late = [in_virtual_time(allocation, rule.lower(), counts) for allocation, rule in COMBINATIONS]
    assert late == sorted(late)
    assert late[0] < late[1] < late[2] < late[3], "the paper's order"
    free = in_virtual_time("ExistingAlloc", micro_batches("pack:overload=edf", 0.0), counts)
    dear = in_virtual_time("ExistingAlloc", micro_batches("pack:overload=edf", 3000.0), counts, 3000.0)
    assert free <= dear, "a fixed cost makes more late, not less"


def report(control: tuple[int, int, int], warning: tuple[int, int, int]) -> dict[str, Any]:
    def query(taken: int, out: int, missed: int) -> dict[str, Any]:
        times = {"p50": 1.0, "p95": 2000.0, "p99": 3.0}
        return {"in": taken, "out": out, "missed": missed, "latency_ms": times, "missed_ms": {}}

    queries = {"control": query(*control), "warning": query(*warning), "information": query(100, 100, 0)}
    node = {"batches": 7, "batch_ms": {"p50": 900.0, "p95": 1.0}, "costs": {"fixed_us": 150_000.0}}
    return {"queries": queries, "wall_s": 60.0, "nodes": {"node1": node, "node2": node}}


def test_late_results_are_counted_and_shown(tmp_path: Path) -> None:
    cell = cell_of(report((10, 10, 2), (16, 8, 4)))
    assert cell["late"] == pytest.approx((2 + 8 * 4 / 16) / 18)
    cells = [
        {"label": label, "o3": "node1", **cell, "late": late, "virtual": late, "virtual_batches": late}
        for label, late in zip(PUBLISHED, (0, 0.3, 0.2, 1), strict=True)
    ]
    assert broken_order(cells) == ["ExistingAlloc.EDF >= DeadlineAlloc.FIFO"]
    result = {
        "machine": {"cores": 2, "date": "2026"},
        "settings": {"stretch": QUICK.stretch, "seed": 2, "edf": QUICK.edf, "fifo": QUICK.fifo},
        "activations": bursts(QUICK),
        "cells": cells,
        "broken": broken_order(cells),
    }
    shown = io.StringIO()
    Console(width=200, file=shown).print(nodes_tables(result))
    assert "not the paper's order: ExistingAlloc.EDF >= DeadlineAlloc.FIFO" in shown.getvalue()
    draw_nodes(result, tmp_path / "nodes.png")
    assert (tmp_path / "nodes.png").stat().st_size > 10_000
