"""Task extraction merges along single streams, along the shortest deadline at a branch, and never across nodes."""

from __future__ import annotations

from kigen.placement.network import Network, arrival_us, route_all
from kigen.placement.problem import Problem, ProblemNode, ProblemOperator, ProblemOutput, ProblemStream, both_ways
from kigen.placement.result import PlacedTask
from kigen.placement.tasks import extract_tasks, finish_us, late


def branch(short_us: float, long_us: float) -> Problem:
    """Returns the local plan of the paper's figure 6: O1 feeds O2 and O3."""
    streams = (ProblemStream("in", ("n",), 1), ProblemStream("a"), ProblemStream("b"), ProblemStream("c"))
    operators = (
        ProblemOperator("O1", ("in",), "a"),
        ProblemOperator("O2", ("a",), "b"),
        ProblemOperator("O3", ("a",), "c"),
    )
    return Problem(
        (ProblemNode("n"), ProblemNode("m")),
        both_ways("n", "m"),
        streams,
        operators,
        (ProblemOutput("x", "b", "n", short_us), ProblemOutput("y", "c", "n", long_us)),
    )


def extracted(problem: Problem, nodes: dict[str, str], operator_us: dict[str, float]) -> tuple[PlacedTask, ...]:
    arrivals = arrival_us(problem, nodes, route_all(Network(problem), nodes))
    tasks = extract_tasks(problem, nodes, operator_us, arrivals)
    assert not late(problem, arrivals, nodes, finish_us(problem, tasks, arrivals, nodes))
    return tasks


def test_a_branch_merges_along_the_shortest_deadline() -> None:
    tasks = extracted(branch(2, 7), {"O1": "n", "O2": "n", "O3": "n"}, {"O1": 1, "O2": 1, "O3": 5})
    assert [(t.operators, t.sub_deadline_us) for t in tasks] == [(("O1", "O2"), 2), (("O3",), 5)]
    assert tasks[0].outputs == ("a", "b")
    other = extracted(branch(7, 2), {"O1": "n", "O2": "n", "O3": "n"}, {"O1": 0.5, "O2": 5, "O3": 1})
    assert [t.operators for t in other] == [("O1", "O3"), ("O2",)]


def test_a_merge_that_would_break_the_other_deadline_is_not_made() -> None:
    """O3 would have to wait for O2 as well: 1 + 1 + 5 is more than 6.5."""
    tasks = extracted(branch(2, 6.5), {"O1": "n", "O2": "n", "O3": "n"}, {"O1": 1, "O2": 1, "O3": 5})
    assert [t.operators for t in tasks] == [("O1",), ("O2",), ("O3",)]


def test_tasks_end_where_nodes_do() -> None:
    tasks = extracted(branch(2, 7), {"O1": "n", "O2": "m", "O3": "n"}, {"O1": 1, "O2": 1, "O3": 5})
    assert {t.operators: t.node for t in tasks} == {("O1",): "n", ("O2",): "m", ("O3",): "n"}


def test_an_operator_with_two_inputs_begins_a_task() -> None:
    streams = (
        ProblemStream("in", ("n",), 1),
        ProblemStream("a"),
        ProblemStream("b"),
        ProblemStream("c"),
        ProblemStream("d"),
    )
    operators = (
        ProblemOperator("O1", ("in",), "a"),
        ProblemOperator("O2", ("in",), "b"),
        ProblemOperator("O3", ("a", "b"), "c"),
        ProblemOperator("O4", ("c",), "d"),
    )
    problem = Problem((ProblemNode("n"),), (), streams, operators, (ProblemOutput("x", "d", "n", 10),))
    tasks = extracted(problem, dict.fromkeys(problem.operator, "n"), dict.fromkeys(problem.operator, 1.0))
    assert [t.operators for t in tasks] == [("O1",), ("O2",), ("O3", "O4")]
    assert tasks[2].sub_deadline_us == 2.0
