"""Finds a placement within a time limit. There is always an answer; `holds` and `gap` say how good it is.

Small problems (some tens of operators) get the paper's model first. All others, and those without a proven answer, get
the fixed-split model with its bound on traffic. A placement counts only if the demand test of the tasks as they run
passes; otherwise slack is raised until it does. Cost: at most about the time limit. The clock is the caller's: this
layer reads none.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product

from kigen.placement.network import Network, Route, arrival_us, route_all
from kigen.placement.problem import Problem
from kigen.placement.problem_checks import ProblemError
from kigen.placement.result import Placement
from kigen.placement.solver.assemble import assemble
from kigen.placement.solver.baseline import sqpr
from kigen.placement.solver.exact import ExactModel
from kigen.placement.solver.limits import check_reachable, impossible, needed
from kigen.placement.solver.neighbourhoods import TrafficSolution, minimise_traffic, neighbourhoods
from kigen.placement.solver.node_demand import NodeDemand
from kigen.placement.solver.search import Search
from kigen.placement.solver.split import Shares, by_level, by_work, least, reserve

ALLOCATIONS = ("deadline", "sqpr")
FLOOR = 0.1  # share of every time span that the fixed-split model leaves free
_FLOORS = (0.2, 0.35, 0.5, 0.7)
_REPAIRS = 20
_MORE_SLACK = 0.05
_POLISHES = 4
_REPAIRED = ", repaired"
_EXACT_PAIRS = 100  # limit of pairs of operators per common node up to which the paper's model is tried

Clock = Callable[[], float]


@dataclass(frozen=True)
class Limits:
    """Limits of the search."""

    time_limit_s: float = 60.0
    floor: float = FLOOR
    gap: float = 1e-3
    seed: int = 0


def solve(problem: Problem, now: Clock, allocate: str = "deadline", limits: Limits = Limits()) -> Placement:
    """Returns a placement.

    `now` returns seconds of a monotonic clock. `allocate`: deadline, or sqpr with the sub-deadlines of deadline.
    """
    if allocate not in ALLOCATIONS:
        raise ProblemError(f"allocate must be one of {', '.join(ALLOCATIONS)}; got {allocate}")
    network = Network(problem)
    if wrong := check_reachable(problem, network):
        raise ProblemError("; ".join(wrong))
    end = now() + limits.time_limit_s
    best = _by_deadline(problem, network, lambda: end - now(), limits)
    if allocate == "sqpr":
        nodes = sqpr(problem, network, max(1.0, end - now()))
        return assemble(problem, nodes, route_all(network, nodes), best.sub_deadlines_us, 0.0, "sqpr")
    return best


def _by_deadline(problem: Problem, network: Network, left_s: Clock, limits: Limits) -> Placement:
    hopeless = impossible(problem, network)
    found: Placement | None = None
    if not hopeless and is_small(problem):
        found, proven = _exact(problem, _first(left_s, 0.5))
        if found is not None and found.holds and proven:
            return found
    fixed, _ = fixed_split(problem, network, left_s, limits)
    if fixed.holds or found is None:
        found = fixed
    if found.holds:
        return found
    why = hopeless or _why(problem, limits, left_s)
    return replace(found, notes=(*why, *found.notes))


def is_small(problem: Problem) -> bool:
    """Returns whether the paper's model is worth trying.

    Counts the pairs of operators that may meet on a node and of which one is free to move.
    """
    names = list(problem.operator)
    if len(names) > 60:
        return False
    meet = 0
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            if len(problem.allowed[a]) > 1 or len(problem.allowed[b]) > 1:
                meet += len(set(problem.allowed[a]) & set(problem.allowed[b]))
    return meet <= _EXACT_PAIRS


def _exact(problem: Problem, left_s: Clock) -> tuple[Placement | None, bool]:
    model = ExactModel(problem)
    answer, proven = model.solve(left_s)
    if answer.values is None:
        return None, False
    nodes = model.nodes(answer.values)
    routes = model.routes(answer.values, nodes)
    placed = assemble(
        problem, nodes, routes, model.shares(answer.values), 0.0, "exact" if proven else "exact, time ran out"
    )
    return replace(placed, bound=placed.traffic if proven else 0.0), proven


def fixed_split(problem: Problem, network: Network, left_s: Clock, limits: Limits) -> tuple[Placement, TrafficSolution]:
    """Solves the model for many operators, then tests the demand of its tasks and adds slack on nodes that fail."""
    reserved = reserve(problem, network)
    demand = NodeDemand(problem, least(by_level(problem, reserved)))
    found = minimise_traffic(network, demand, limits.floor, _first(left_s, 0.85), limits.gap, limits.seed)
    search = Search(network, demand, limits.floor, limits.seed)
    best, held = repair(search, found.nodes, found.bound, "fixed split"), search
    for shared, floor in product((False, True), _FLOORS):
        if best.holds or (left_s() <= 0 and (shared or floor > _FLOORS[0])):
            break
        search = _search(problem, network, reserved, shared, floor, limits)
        tried = repair(search, search.nodes, found.bound, f"heuristic, slack {floor:g}")
        if _goodness(tried) > _goodness(best):
            best, held = tried, search
    return (_polish(held, best, left_s, limits) if best.holds else best), found


def _goodness(placed: Placement) -> tuple[bool, float]:
    return placed.holds, placed.slack


def _first(left_s: Clock, share: float) -> Clock:
    """Returns the time left of the first `share` of the time that is left now."""
    rest = left_s() * (1 - share)
    return lambda: left_s() - rest


def repair(search: Search, nodes: Mapping[str, str], bound: float, method: str) -> Placement:
    """Raises the slack of nodes whose tasks fail the demand test, and lets the search move work away.

    If that does not help, raises it on all nodes: a less busy upstream node responds more evenly.
    """
    search.take(nodes)
    best = tried = final(search.problem, search.network, search.nodes, bound, method)
    stuck = False
    for _ in range(_REPAIRS):
        failing = [n for n, load in tried.node_loads.items() if load.demand > 1]
        if tried.holds or not failing:
            break
        for n in search.floor if stuck else failing:
            search.floor[n] = min(0.95, search.floor[n] + _MORE_SLACK)
        before = tried.slack
        search.improve(_rounds(5 * len(search.problem.operators)))
        tried = final(search.problem, search.network, search.nodes, bound, method.removesuffix(_REPAIRED) + _REPAIRED)
        stuck = tried.slack <= before + _MORE_SLACK / 10
        best = max(best, tried, key=_goodness)
    return best


def _polish(search: Search, repaired: Placement, left_s: Clock, limits: Limits) -> Placement:
    """Improves a repaired placement by neighbourhoods under its slacks, as long as the demand test passes."""
    rng = random.Random(limits.seed)
    best, tries = repaired, 0
    while left_s() > 0 and tries < _POLISHES and best.gap > limits.gap:
        tries += 1
        given = TrafficSolution(best.nodes, best.traffic, best.bound, True, best.traffic)
        found = neighbourhoods(search, given, _first(left_s, 0.3), limits.gap, rng)
        tried = repair(search, found.nodes, best.bound, best.method.removesuffix(_REPAIRED) + _REPAIRED)
        if tried.holds and tried.traffic < best.traffic:
            best = tried
    return best


def _rounds(count: int) -> Clock:
    """Returns a budget that is counted in calls instead of seconds."""
    looks = iter(range(count))
    return lambda: 1.0 if next(looks, None) is not None else 0.0


def _search(
    problem: Problem, network: Network, reserved: Mapping[str, float], shared: bool, floor: float, limits: Limits
) -> Search:
    search = Search(network, NodeDemand(problem, least(by_level(problem, reserved, shared))), floor, limits.seed)
    search.greedy()
    search.improve(_rounds(20 * len(problem.operators)))
    return search


def final(problem: Problem, network: Network, nodes: Mapping[str, str], bound: float, method: str) -> Placement:
    """Splits the deadlines for the links that are really used, and returns the split with the most slack."""
    routes = route_all(network, nodes)
    on_links = link_time_us(problem, nodes, routes)
    splits: list[Shares] = [
        by_level(problem, on_links),
        by_level(problem, on_links, shared=True),
        by_work(problem, on_links),
    ]
    placed = [assemble(problem, nodes, routes, shares, bound, method) for shares in splits]
    return max(placed, key=lambda p: (p.holds, p.slack))


def link_time_us(problem: Problem, nodes: Mapping[str, str], routes: Mapping[str, Route]) -> dict[str, float]:
    """Returns output -> the time on links of its longest path."""
    arrivals = arrival_us(problem, nodes, routes)
    there: dict[str, float] = {}
    for o in problem.order:
        op = problem.operator[o]
        there[op.output] = max(there.get(s, 0.0) + arrivals[s][nodes[o]] for s in op.inputs)
    return {o.name: there.get(o.stream, 0.0) + arrivals[o.stream][o.sink] for o in problem.outputs}


def _why(problem: Problem, limits: Limits, left_s: Clock) -> list[str]:
    """Explains why the deadlines do not hold.

    Uses the paper's model with deadlines that may be exceeded, if it is small and nothing is periodic; else stretches
    the deadlines.
    """
    if is_small(problem) and all(p is None for p in problem.period_us.values()):
        model = ExactModel(problem, stretch=True)
        answer, _ = model.solve(lambda: max(10.0, left_s()))
        if answer.values is not None and (over := model.exceeded_us(answer.values)):
            limit = problem.output
            return [
                f"the deadline of {o} ({limit[o].deadline_us / 1000:g} ms) cannot hold: "
                f"{(limit[o].deadline_us + us) / 1000:.3f} ms could, "
                f"{us / 1000:.3f} ms more"
                for o, us in over.items()
            ]

    def holds(longer: Problem) -> bool:
        network = Network(longer)
        search = _search(longer, network, reserve(longer, network), False, 0.3, limits)
        return repair(search, search.nodes, 0.0, "").holds

    return needed(problem, holds, left_s)
