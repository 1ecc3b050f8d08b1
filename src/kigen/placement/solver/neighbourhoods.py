"""Solves the fixed-split model within a time limit.

It runs the heuristic first, then the whole model if it is small enough, else its relaxation for the bound. Then it
solves one neighbourhood after the other: small models in which all other operators stay where they are. Invariant:
there is always a placement, it only improves, and the bound holds for every placement that the demand test admits.
Cost: the given time, unless the bound is reached earlier.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kigen.placement.network import Network
from kigen.placement.solver.fixed import FixedModel
from kigen.placement.solver.mip import MipSolution
from kigen.placement.solver.node_demand import NodeDemand
from kigen.placement.solver.search import Search

_WHOLE_COLUMNS = 12_000  # largest number of placement columns for which the whole model is solved
_AT_ONCE = 1_500  # columns per neighbourhood; doubles after `_VAIN` neighbourhoods without a gain
_VAIN = 20
_EACH_S = 6.0  # time for a neighbourhood of the first size
_ROUNDS = 20  # rounds of cuts

Left = Callable[[], float]


@dataclass(frozen=True)
class TrafficSolution:
    """A placement with little traffic, and a bound on the traffic."""

    nodes: dict[str, str]
    traffic: float
    bound: float
    fits: bool
    heuristic_traffic: float
    spent_s: float = 0.0  # on the caller's clock


def minimise_traffic(
    network: Network, demand: NodeDemand, floor: float, left_s: Left, gap: float = 1e-4, seed: int = 0
) -> TrafficSolution:
    """Finds a placement with little traffic that leaves `floor` of every span free."""
    given_s = left_s()
    found = _minimise(network, demand, floor, left_s, gap, seed)
    return replace(found, spent_s=given_s - left_s())


def _minimise(
    network: Network, demand: NodeDemand, floor: float, left_s: Left, gap: float, seed: int
) -> TrafficSolution:
    search = Search(network, demand, floor, seed)
    search.greedy()
    search.improve(_part(left_s, 0.3))
    heuristic, fits = search.traffic(), search.fits()
    best = TrafficSolution(dict(search.nodes), heuristic, 0.0, fits, heuristic)
    if left_s() <= 0:
        return best
    model = FixedModel(network.problem, network, demand, search.floor)
    if not model.free:
        return TrafficSolution(best.nodes, heuristic, heuristic, fits, heuristic)
    best = _spans(model, search, best, _part(left_s, 0.3))
    if len(model.z) <= _WHOLE_COLUMNS:
        best = _whole(model, search, best, _part(left_s, 0.6), gap)
    return neighbourhoods(search, best, left_s, gap, random.Random(seed))


def _part(left_s: Left, share: float) -> Left:
    """Returns the time left of the first `share` of the time that is left now."""
    rest = left_s() * (1 - share)
    return lambda: left_s() - rest


def _accept(
    search: Search, nodes: Mapping[str, str], best: TrafficSolution, bound: float, left_s: Left
) -> TrafficSolution:
    """Improves a candidate by moves, and takes it if it fits and is better."""
    search.take(nodes)
    bound = max(bound, best.bound)
    fits = search.fits()
    if not fits or search.traffic() < best.traffic:
        search.improve(left_s)
        fits = search.fits()
    traffic = search.traffic()
    if fits and (not best.fits or traffic < best.traffic):
        return TrafficSolution(dict(search.nodes), traffic, bound, True, best.heuristic_traffic)
    return TrafficSolution(best.nodes, best.traffic, bound, best.fits, best.heuristic_traffic)


def _closed(best: TrafficSolution, gap: float) -> bool:
    return best.fits and best.traffic - best.bound <= gap * max(best.traffic, 1e-9)


def _spans(model: FixedModel, search: Search, best: TrafficSolution, left_s: Left) -> TrafficSolution:
    """Finds the time spans that matter on rounded relaxations, which are cheap. Each relaxation also gives a bound."""
    for _ in range(_ROUNDS):
        if left_s() <= 0:
            break
        answer = model.solve(left_s(), relaxed=True)
        if answer.status != "optimal" or answer.values is None:
            break
        nodes = model.nodes(answer.values)
        cuts = _cut(model, nodes)
        best = _accept(search, nodes, best, answer.objective, left_s)
        if not cuts:
            break
    return best


def _whole(model: FixedModel, search: Search, best: TrafficSolution, left_s: Left, gap: float) -> TrafficSolution:
    """Solves the whole model, with cuts, until it fits or the gap is closed."""
    while left_s() > 0:
        answer = model.solve(left_s(), best.nodes if best.fits and model.network.is_mesh else None, gap)
        bound = max(0.0, answer.bound) if answer.status != "infeasible" else best.bound
        if answer.values is None:
            return TrafficSolution(best.nodes, best.traffic, max(bound, best.bound), best.fits, best.heuristic_traffic)
        nodes = model.nodes(answer.values)
        cuts = _cut(model, nodes)
        best = _accept(search, nodes, best, bound, left_s)
        if not cuts or _closed(best, gap):
            break
    return best


def _cut(model: FixedModel, nodes: Mapping[str, str]) -> int:
    held: dict[str, list[str]] = {n: [] for n in model.problem.node}
    for o, n in nodes.items():
        held[n].append(o)
    return sum(model.cut(ops, n) for n, ops in held.items())


def neighbourhoods(
    search: Search, best: TrafficSolution, left_s: Left, gap: float, rng: random.Random
) -> TrafficSolution:
    """Improves `best` under the search's demand test and least slacks."""
    network, demand = search.network, search.demand
    problem = network.problem
    free = [o for o in problem.order if len(problem.allowed[o]) > 1]
    many = max(4, _AT_ONCE // len(problem.nodes))
    if not free:
        return best
    vain, largest = 0, min(len(free), _WHOLE_COLUMNS // len(problem.nodes))
    while left_s() > 0.2 and not _closed(best, gap) and best.fits:
        if vain == _VAIN:
            if many >= largest:
                break
            vain, many = 0, min(2 * many, largest)
        chosen = _chosen(search, best.nodes, free, many, rng)
        pinned = {o: n for o, n in best.nodes.items() if o not in chosen}
        limit_s = min(left_s(), _EACH_S * many * len(problem.nodes) / _AT_ONCE)
        answer, nodes = _settle(FixedModel(problem, network, demand, search.floor, pinned), best.nodes, limit_s)
        before = best.traffic
        if nodes is not None and answer.objective < before * (1 - 1e-6):
            best = _accept(search, nodes, best, 0.0, left_s)
        vain = 0 if best.traffic < before else vain + 1
    return best


def _settle(
    model: FixedModel, nodes: Mapping[str, str], time_limit_s: float
) -> tuple[MipSolution, dict[str, str] | None]:
    answer = model.solve(time_limit_s, nodes if model.network.is_mesh else None, 1e-3)
    for _ in range(3):
        if answer.values is None:
            return answer, None
        found = model.nodes(answer.values)
        if not _cut(model, found):
            return answer, found
        answer = model.solve(time_limit_s, nodes if model.network.is_mesh else None, 1e-3)
    return answer, None


def _chosen(search: Search, nodes: Mapping[str, str], free: list[str], many: int, rng: random.Random) -> set[str]:
    """Returns operators around a random one: mostly along the plan, some from the same nodes, which compete for
    room.
    """
    problem, open_to_move = search.problem, set(free)
    waiting, chosen, seen = [rng.choice(free)], set[str](), set[str]()
    while len(chosen) < min(many, len(free)):
        if not waiting:
            near = [o for o in free if o not in seen and nodes[o] in {nodes[c] for c in chosen}]
            waiting.append(rng.choice(near or free))
        at = waiting.pop(rng.randrange(len(waiting)))
        if at in seen:
            if len(seen) >= len(problem.operators):
                break
            continue
        seen.add(at)
        if at in open_to_move:
            chosen.add(at)
        op = problem.operator[at]
        beside = [o for s in op.inputs for o in problem.consumers[s]]
        waiting += [o for o in (*problem.before[at], *problem.consumers[op.output], *beside) if o not in seen]
    return chosen
