"""Checks random plans with periods: an output that a placement claims to hold is not late in virtual time, with
blocking by a running tuple.

Operators are placed at random. Deadlines are then reduced to what the placement promises for each output, so that the
smallest flaw in its demand test, or in the simulator, shows.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from oracle.periodic_plans import late_in, random_plan

from kigen.placement import Placement, Problem
from kigen.placement.network import Network, arrival_us, route_all
from kigen.placement.solver.assemble import assemble
from kigen.placement.solver.solve import Limits, solve
from kigen.placement.solver.split import by_level, reserve
from kigen.placement.tasks import finish_us


def thrown(plan: Problem, seed: int, scale: float = 1.0) -> tuple[Problem, Placement]:
    """Returns a random placement of the plan with scaled costs, and sub-deadlines as for the plan itself."""
    rng, network = random.Random(seed), Network(plan)
    nodes = {o.name: rng.choice(plan.allowed[o.name]) for o in plan.operators}
    scaled = replace(plan, operators=tuple(replace(o, cost_us=o.cost_us * scale) for o in plan.operators))
    return scaled, assemble(
        scaled, nodes, route_all(network, nodes), by_level(plan, reserve(plan, network)), 0.0, "thrown"
    )


def fullest(plan: Problem, seed: int) -> tuple[Problem, Placement] | None:
    """Returns a random placement with the highest costs for which it still holds."""
    low, high = 0.01, 3.0
    if not thrown(plan, seed, low)[1].holds:
        return None
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if thrown(plan, seed, middle)[1].holds else (low, middle)
    return thrown(plan, seed, low)


def promised(plan: Problem, placement: Placement) -> Problem:
    """Returns the plan with no more time than the placement needs by its own account."""
    arrivals = arrival_us(plan, placement.nodes, placement.routes)
    finish = finish_us(plan, placement.tasks, arrivals, placement.nodes)
    tight = [replace(o, deadline_us=finish.get(o.stream, 0.0) + arrivals[o.stream][o.sink]) for o in plan.outputs]
    return replace(plan, outputs=tuple(tight))


@pytest.mark.parametrize("first", [0, 10, 20])
def test_what_holds_is_not_late(first: int) -> None:
    full = [
        (seed, found) for seed in range(first, first + 10) if (found := fullest(random_plan(seed), seed)) is not None
    ]
    assert len(full) >= 5
    for seed, (plan, placement) in full:
        assert placement.holds
        assert not late_in(promised(plan, placement), placement, seed, rounds=2), f"seed {seed}"


def test_what_the_solver_says_holds_is_not_late() -> None:
    """Runs a few of the plans of the soak test."""
    placed = [
        (seed, plan := random_plan(seed), solve(plan, time.monotonic, limits=Limits(time_limit_s=3.0)))
        for seed in (1, 2, 3, 6)
    ]
    assert any(placement.holds for _, _, placement in placed)
    for seed, plan, placement in placed:
        assert not (placement.holds and late_in(plan, placement, seed, rounds=2)), f"seed {seed}"


def test_what_does_not_hold_may_be_late() -> None:
    """Shows that the test above could fail."""
    late = 0
    for seed in range(12):
        plan, placement = thrown(random_plan(seed), seed, 1.5)
        late += bool(not placement.holds and late_in(plan, placement, seed, rounds=1))
    assert late >= 3


def test_a_seed_says_everything() -> None:
    assert random_plan(7) == random_plan(7)
    assert random_plan(7) != random_plan(8)


def test_counts_of_tuples_are_whole() -> None:
    for seed in range(50):
        assert all(count == int(count) for count in random_plan(seed).tuples.values())
