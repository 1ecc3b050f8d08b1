"""Impossible deadlines are reported by name and amount. Links count against deadlines, and relays are found."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from kigen_lab.plans.random_plans import random_problem

from kigen.placement.problem import (
    Problem,
    ProblemLink,
    ProblemNode,
    ProblemOperator,
    ProblemOutput,
    ProblemStream,
    both_ways,
)
from kigen.placement.problem_checks import ProblemError
from kigen.placement.solver.solve import Limits, solve


def chain(
    deadline_us: float,
    *,
    delay_us: float = 0.0,
    period_us: float | None = None,
    links: tuple[ProblemLink, ...] | None = None,
) -> Problem:
    """Returns a problem with a stream born on a, one free operator of 10 ms, and the result wanted on c; a - b - c."""
    given = (*both_ways("a", "b", delay_us), *both_ways("b", "c", delay_us)) if links is None else links
    streams = (ProblemStream("in", ("a",), 10, period_us), ProblemStream("out"))
    operator = ProblemOperator("work", ("in",), "out", 1000.0, 0.5)
    return Problem(
        (ProblemNode("a"), ProblemNode("b"), ProblemNode("c")),
        given,
        streams,
        (operator,),
        (ProblemOutput("answer", "out", "c", deadline_us),),
    )


@pytest.mark.parametrize("period_us", [None, 50_000.0])
def test_streams_are_relayed(period_us: float | None) -> None:
    placed = solve(chain(100_000, period_us=period_us), time.monotonic)
    assert placed.nodes == {"work": "a"}
    assert placed.routes == {"out": (("a", "b"), ("b", "c"))}
    assert placed.holds


@pytest.mark.parametrize("period_us", [None, 50_000.0])
def test_delays_count_against_the_deadline(period_us: float | None) -> None:
    held = solve(chain(32_000, delay_us=10_000, period_us=period_us), time.monotonic)
    assert held.holds, held.notes
    assert held.operator_us["work"] <= 12_000 + 1e-3
    broken = solve(chain(29_000, delay_us=10_000, period_us=period_us), time.monotonic)
    assert not broken.holds
    assert "the deadline of answer (29 ms) cannot hold: its longest path needs 30.000 ms" in broken.notes[0]
    assert "1.000 ms more" in broken.notes[0]


def test_work_of_others_on_a_pinned_node_is_reported_with_its_amount() -> None:
    """Two outputs with 10 ms of work each on one node are wanted within 15 ms: one of them needs 5 ms more."""
    streams = (ProblemStream("p", ("a",), 10), ProblemStream("q", ("a",), 10), ProblemStream("x"), ProblemStream("y"))
    operators = (ProblemOperator("P", ("p",), "x", 1000.0), ProblemOperator("Q", ("q",), "y", 1000.0))
    problem = Problem(
        (ProblemNode("a"),),
        (),
        streams,
        operators,
        (ProblemOutput("one", "x", "a", 15_000), ProblemOutput("two", "y", "a", 15_000)),
    )
    placed = solve(problem, time.monotonic)
    assert not placed.holds
    (note,) = [n for n in placed.notes if "cannot hold" in n]
    assert "20.000 ms could, 5.000 ms more" in note


def test_too_much_work_for_all_nodes_is_told() -> None:
    placed = solve(chain(100_000, period_us=3_000), time.monotonic, limits=Limits(5))
    assert not placed.holds
    assert any("need 3.33 CPUs of speed 1; the nodes have 3.00" in n for n in placed.notes)


def test_no_route_is_an_error() -> None:
    with pytest.raises(ProblemError, match="results of answer have no route to node c: add a link"):
        solve(chain(100_000, links=both_ways("a", "b")), time.monotonic)
    pinned = chain(100_000, links=both_ways("a", "b"))
    pinned = replace(pinned, operators=(replace(pinned.operators[0], nodes=("c",)),))
    with pytest.raises(ProblemError, match="operator work may run on c, but stream in has no route to it"):
        solve(pinned, time.monotonic)


def test_a_link_carries_no_more_than_its_bandwidth() -> None:
    """10 tuples of 100 bytes every 50 ms are 20 kB/s; after the operator it is half of that."""
    narrow = (*both_ways("a", "b", 0.0, 12_000.0), *both_ways("b", "c", 0.0, 12_000.0))
    placed = solve(chain(1_000_000, period_us=50_000, links=narrow), time.monotonic)
    assert placed.holds
    assert [round(l.used or 0, 3) for l in placed.link_loads] == [0.833, 0.833]
    none = (*both_ways("a", "b", 0.0, 8_000.0), *both_ways("b", "c", 0.0, 8_000.0))
    placed = solve(chain(1_000_000, period_us=50_000, links=none), time.monotonic)
    assert not placed.holds
    assert any("link a -> b: 125.0 % of its bandwidth" in n for n in placed.notes)


@pytest.mark.parametrize("seed", range(6))
def test_an_answer_is_always_there(seed: int) -> None:
    """Even with almost no time, every operator has a node, every stream has a route, and the bound is not higher."""
    problem = random_problem(4, 30, seed, load=0.3 + 0.1 * seed)
    placed = solve(problem, time.monotonic, limits=Limits(0.5))
    assert set(placed.nodes) == set(problem.operator)
    assert all(placed.nodes[o] in problem.allowed[o] for o in problem.operator)
    assert placed.bound <= placed.traffic * (1 + 1e-9)
    assert sum(len(t.operators) for t in placed.tasks) == len(problem.operators)
    assert placed.holds or placed.notes
