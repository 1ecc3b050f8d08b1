"""Splits deadlines over operators, before the nodes are known.

The paper's split d'(s, o) = c_o * d_s / c'_s gives every operator the same normalised laxity ratio. Where operators are
parallel (branches) it wastes time: the path is shorter than the deadline, while the branches wait for each other on one
node. `by_level` gives all operators of one depth the share of their common work; on a chain it equals the paper's
split. Invariant: along every path the shares sum to at most the deadline minus the time reserved for links.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from kigen.placement.network import Network
from kigen.placement.problem import Problem

Shares = dict[tuple[str, str], float]


def by_work(problem: Problem, reserved_us: Mapping[str, float] | None = None) -> Shares:
    """Returns the paper's d' for each (output, operator)."""
    shares: Shares = {}
    for output in problem.outputs:
        ops = problem.needed[output.name]
        total = sum(problem.work_us[o] for o in ops)
        time = output.deadline_us - (reserved_us or {}).get(output.name, 0.0)
        shares |= {(output.name, o): _part(problem.work_us[o], total, time, len(ops)) for o in ops}
    return shares


def by_level(problem: Problem, reserved_us: Mapping[str, float] | None = None, shared: bool = False) -> Shares:
    """Returns the split by depth.

    `shared`: the work of a depth also includes outputs that share an operator with this one and are at least as urgent.
    """
    depth: dict[str, int] = {}
    for o in problem.order:
        depth[o] = 1 + max((depth[p] for p in problem.before[o]), default=0)
    shares: Shares = {}
    for output in problem.outputs:
        ops = problem.needed[output.name]
        work: dict[int, float] = defaultdict(float)
        for o in _beside(problem, output.name) if shared else ops:
            work[depth[o]] += problem.work_us[o]
        mine = {depth[o] for o in ops}
        total = sum(work[level] for level in mine)
        time = output.deadline_us - (reserved_us or {}).get(output.name, 0.0)
        shares |= {(output.name, o): _part(work[depth[o]], total, time, len(mine)) for o in ops}
    return shares


def _beside(problem: Problem, name: str) -> set[str]:
    """Returns the operators of an output and of the outputs that share an operator with it and are at least as
    urgent.
    """
    mine = set(problem.needed[name])
    deadline_us = problem.output[name].deadline_us
    near = [o.name for o in problem.outputs if o.deadline_us <= deadline_us and mine & set(problem.needed[o.name])]
    return mine.union(*(problem.needed[o] for o in near))


def _part(mine: float, total: float, time: float, count: int) -> float:
    return max(0.0, time) * (mine / total if total > 0 else 1 / count)


def least(shares: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """Returns operator -> the least of its shares, which counts if several outputs need it."""
    found: dict[str, float] = {}
    for (_, op), share in shares.items():
        found[op] = min(share, found.get(op, share))
    return found


def longest_link_us(problem: Problem) -> float:
    """Returns the time of an average stream on the slowest link: what a crossing may cost while the placement is
    unknown.
    """
    sizes = list(problem.size_bytes.values())
    mean = sum(sizes) / len(sizes) if sizes else 0.0
    return max((link.time_us(mean) for link in problem.links), default=0.0)


def reserve(problem: Problem, network: Network) -> dict[str, float]:
    """Returns output -> time reserved for links.

    It is what its route needs at least (sources, pinned operators, sink), plus some for crossings that a placement may
    want, up to a quarter of the deadline.
    """
    crossing = longest_link_us(problem)
    found = {}
    for output in problem.outputs:
        must, links = _least_way(problem, network, output.stream, output.sink)
        found[output.name] = max(must, min(output.deadline_us / 4, links * crossing))
    return found


def _least_way(problem: Problem, network: Network, stream: str, sink: str) -> tuple[float, int]:
    """Returns the least delay from sources to sink on the longest path, over all choices of nodes, and its number of
    streams.
    """
    arrive: dict[str, dict[str, float]] = {}
    links: dict[str, int] = {}

    def at(name: str) -> dict[str, float]:
        if name not in arrive:
            maker = problem.producer.get(name)
            if maker is None:
                arrive[name], links[name] = dict.fromkeys(problem.stream[name].born, 0.0), 1
            else:
                inputs = problem.operator[maker].inputs
                before = [at(s) for s in inputs]
                arrive[name] = {n: max(_reach(network, b, n) for b in before) for n in problem.allowed[maker]}
                links[name] = 1 + max(links[s] for s in inputs)
        return arrive[name]

    return _reach(network, at(stream), sink), links[stream]


def _reach(network: Network, at: Mapping[str, float], node: str) -> float:
    return min((t + network.delay_us(n, node) for n, t in at.items() if node in network.reach(n)), default=float("inf"))
