"""Tries every placement of tiny problems: the models must find the best one, and their bounds must be bounds."""

from __future__ import annotations

import itertools
import random
import time

import pytest

from kigen.placement.network import Network, route_all, traffic_of
from kigen.placement.problem import (
    Problem,
    ProblemLink,
    ProblemNode,
    ProblemOperator,
    ProblemOutput,
    ProblemStream,
    both_ways,
)
from kigen.placement.solver.exact import ExactModel
from kigen.placement.solver.neighbourhoods import minimise_traffic
from kigen.placement.solver.node_demand import NodeDemand, local_fit
from kigen.placement.solver.split import by_level, by_work, least, reserve

FLOOR = 0.1


def tiny(seed: int, period_us: float | None) -> Problem:
    """Returns a problem with 2-3 nodes in a mesh or a line, and 3-6 operators in a random directed graph."""
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(rng.randint(2, 3))]
    links: tuple[ProblemLink, ...] = tuple(l for a, b in itertools.pairwise(names) for l in both_ways(a, b))
    if rng.random() < 0.5:
        links = tuple(ProblemLink(a, b) for a in names for b in names if a != b)
    streams = [
        ProblemStream(f"in{i}", (rng.choice(names),), rng.randint(1, 9), period_us, rng.choice((10, 50)))
        for i in range(2)
    ]
    operators: list[ProblemOperator] = []
    for i in range(rng.randint(3, 6)):
        inputs = tuple(rng.sample([s.name for s in streams], rng.choice((1, 1, 2))))
        pinned = (rng.choice(names),) if rng.random() < 0.2 else ()
        operators.append(
            ProblemOperator(f"o{i}", inputs, f"s{i}", rng.uniform(0.5, 4), rng.choice((0.3, 1.0, 1.5)), pinned)
        )
        streams.append(ProblemStream(f"s{i}", bytes_per_tuple=rng.choice((10, 50))))
    read = {s for o in operators for s in o.inputs}
    ends = [o.output for o in operators if o.output not in read]
    draft = Problem(
        tuple(ProblemNode(n) for n in names),
        links,
        tuple(streams),
        tuple(operators),
        tuple(ProblemOutput(s, s, names[0], 1.0) for s in ends),
    )
    outputs = tuple(
        ProblemOutput(s, s, rng.choice(names), rng.uniform(1.5, 5) * sum(draft.work_us[o] for o in draft.needed[s]))
        for s in ends
    )
    nodes = tuple(ProblemNode(n, rng.choice((0.5, 1.0, 2.0))) for n in names)
    return Problem(nodes, links, tuple(streams), tuple(operators), outputs)


def all_placements(problem: Problem) -> list[dict[str, str]]:
    names = list(problem.operator)
    return [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*(problem.allowed[o] for o in names))]


def best_traffic(problem: Problem, demand: NodeDemand) -> float | None:
    network, best = Network(problem), None
    for nodes in all_placements(problem):
        if all(demand.fits([o for o in nodes if nodes[o] == n], problem.node[n].speed, FLOOR) for n in problem.node):
            traffic = traffic_of(problem, route_all(network, nodes))
            best = traffic if best is None else min(best, traffic)
    return best


@pytest.mark.parametrize("seed", range(30))
def test_the_fixed_split_model_finds_the_least_traffic(seed: int) -> None:
    problem = tiny(seed, random.Random(seed).choice((None, 60.0, 120.0)))
    network = Network(problem)
    demand = NodeDemand(problem, least(by_level(problem, reserve(problem, network))))
    expected = best_traffic(problem, demand)
    end = time.monotonic() + 60
    found = minimise_traffic(network, demand, FLOOR, lambda: end - time.monotonic(), 0.0)
    if expected is None:
        assert not found.fits
    else:
        assert found.fits
        assert found.traffic == pytest.approx(expected, rel=1e-6)
        assert found.bound <= expected * (1 + 1e-6)


def even_split_fits(problem: Problem) -> list[dict[str, str]]:
    operator_us = least(by_work(problem))
    return [
        p
        for p in all_placements(problem)
        if all(local_fit(problem, p, operator_us, n).demand <= 1 + 1e-9 for n in problem.node)
    ]


@pytest.mark.parametrize("seed", range(12))
def test_the_papers_model_reaches_spread_0_exactly_where_the_even_split_fits(seed: int) -> None:
    problem = tiny(seed, None)
    fitting = even_split_fits(problem)
    model = ExactModel(problem)
    end = time.monotonic() + 100
    answer, _ = model.solve(lambda: end - time.monotonic())
    spread = (
        None if answer.values is None else sum(cost * answer.values[column] for column, cost in model.spread.items())
    )
    if not fitting:
        assert spread is None or spread > 1e-3
        return
    assert answer.values is not None
    assert spread == pytest.approx(0, abs=1e-3)
    operator_us = least(by_work(problem))
    nodes = model.nodes(answer.values)
    assert all(local_fit(problem, nodes, operator_us, n).demand <= 1 + 1e-3 for n in problem.node)
