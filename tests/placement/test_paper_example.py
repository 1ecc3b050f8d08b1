"""The paper's worked example: O3 belongs on node 2, however O7..O21 are connected; SQPR puts it on node 1."""

from __future__ import annotations

import time

import pytest
from kigen_lab.plans.paper_example import SHAPES, Shape, paper_example

from kigen.placement.solver.solve import Limits, solve


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [15, 20])
def test_o3_runs_on_node_2(n: int, shape: Shape) -> None:
    placed = solve(paper_example(n, shape), time.monotonic, limits=Limits(120))
    assert placed.nodes["O3"] == "node2"
    assert placed.holds, placed.notes
    assert placed.method == "exact"
    assert placed.routes == {"s2": (("node1", "node2"),)}


@pytest.mark.parametrize("n", [15, 20])
def test_sqpr_puts_it_on_node_1_and_borrows_the_sub_deadlines(n: int) -> None:
    by_deadline = solve(paper_example(n), time.monotonic)
    by_traffic = solve(paper_example(n), time.monotonic, "sqpr")
    assert by_traffic.nodes["O3"] == "node1"
    assert by_traffic.traffic < by_deadline.traffic
    assert by_traffic.operator_us == pytest.approx(by_deadline.operator_us)


def test_the_chain_has_the_even_split_and_four_tasks() -> None:
    placed = solve(paper_example(15), time.monotonic)
    assert placed.spread == pytest.approx(0, abs=1e-4)
    assert placed.operator_us["O1"] == pytest.approx(30_000, rel=1e-4)
    assert placed.operator_us["O3"] == pytest.approx(30_000, rel=1e-4)
    assert placed.operator_us["O7"] == pytest.approx(15_000, rel=1e-4)
    tasks = {t.operators[0]: t for t in placed.tasks}
    assert set(tasks) == {"O1", "O2", "O3", "O6"}
    assert tasks["O3"].operators == ("O3", "O4", *(f"O{i}" for i in range(7, 22)))
    assert tasks["O3"].sub_deadline_us == pytest.approx(270_000, rel=1e-4)
    assert tasks["O6"].operators == ("O6", "O5")


def test_a_faster_node_1_keeps_o3_only_if_slack_is_larger_there() -> None:
    """With node 2 at a tenth of the speed, its 105 ms of the chain do not fit any more: no placement of O3 helps."""
    slow = solve(paper_example(15, speeds=(1.0, 0.1)), time.monotonic, limits=Limits(20))
    assert not slow.holds
    assert any("out2" in note and "cannot hold" in note for note in slow.notes)
    quick = solve(paper_example(15, speeds=(10.0, 1.0)), time.monotonic)
    assert quick.holds
