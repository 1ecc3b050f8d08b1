"""Checks placements in virtual time: the worked example of the paper to the millisecond, on both nodes and with both
rules.
"""

from __future__ import annotations

import pytest
from kigen_lab.plans.paper_example import SHAPES, Shape, paper_example
from kigen_lab.simulate.nodes.node_simulation import simulate_nodes
from kigen_lab.simulate.nodes.outcome import NodesOutcome
from kigen_lab.simulate.nodes.placed import once, periodic, system_of

from kigen.placement import Problem, ProblemLink, ProblemNode, ProblemOperator, ProblemOutput, ProblemStream
from kigen.placement.network import Network, route_all
from kigen.placement.solver.assemble import assemble
from kigen.placement.solver.split import by_work

AGES_US = {"v2v": 100_000.0, "centre": 200_000.0}


def run(o3: str, rule: str, shape: Shape = "chain") -> NodesOutcome:
    problem = paper_example(20, shape, fixed_o3=o3)
    nodes = {op.name: op.nodes[0] for op in problem.operators}
    placement = assemble(problem, nodes, route_all(Network(problem), nodes), by_work(problem), 0.0, "given")
    return simulate_nodes(system_of(problem, placement), once(problem, AGES_US), rule)


@pytest.mark.parametrize(
    ("o3", "rule", "control_ms", "warning_ms"),
    [("node1", "edf", 50, 300), ("node2", "edf", 30, 300), ("node2", "fifo", 30, 480)],
)
def test_the_worked_example(o3: str, rule: str, control_ms: float, warning_ms: float) -> None:
    worst = run(o3, rule).worst_us()
    assert (worst["out1"], worst["out2"]) == (1000.0 * control_ms, 1000.0 * warning_ms)


@pytest.mark.parametrize("shape", SHAPES)
def test_both_deadlines_hold_with_o3_on_node_2_however_its_operators_hang_together(shape: Shape) -> None:
    outcome = run("node2", "edf", shape)
    worst = outcome.worst_us()
    assert worst["out1"] == 30_000.0
    assert max(us for name, us in worst.items() if name.startswith("out2")) == 300_000.0
    assert outcome.missed()[0] == 0


def test_periods_offsets_and_links() -> None:
    streams = (
        ProblemStream("in", ("a",), 3, 1000.0, 100.0),
        ProblemStream("mid"),
        ProblemStream("res", bytes_per_tuple=100.0),
    )
    operators = (
        ProblemOperator("O", ("in",), "mid", 10.0, nodes=("a",)),
        ProblemOperator("P", ("mid",), "res", 10.0, nodes=("b",)),
    )
    links = (ProblemLink("a", "b", 50.0, 1e6), ProblemLink("b", "a", 7.0))
    problem = Problem(
        (ProblemNode("a"), ProblemNode("b", 2.0)), links, streams, operators, (ProblemOutput("res", "res", "a", 900.0),)
    )
    nodes = {"O": "a", "P": "b"}
    placement = assemble(problem, nodes, route_all(Network(problem), nodes), by_work(problem), 0.0, "given")
    outcome = simulate_nodes(system_of(problem, placement), periodic(problem, 3000.0, {"in": 400.0}))
    # 3 tuples of 10 us on a; 300 bytes at 1 MB/s and 50 us on the way; 3 of 5 us on b; 7 us back
    assert [d.latency_us for d in outcome.deliveries] == [30 + 300 + 50 + 15 + 7] * 3
    assert [d.at_us for d in outcome.deliveries] == [400.0 + 1000.0 * i + 402.0 for i in range(3)]
