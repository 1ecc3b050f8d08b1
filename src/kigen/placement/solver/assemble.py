"""Assembles a `Placement` from nodes, routes and sub-deadlines: tasks, loads, and whether it holds.

`holds` is decided by the tasks as they will run: each one sporadic with its period, its activations as early or late as
earlier tasks and links allow (jitter), and one tuple of a later deadline already running (blocking). The test is sound:
no arrival pattern within the given periods makes such a placement miss. If nothing is periodic (the paper's example),
it is formula (6) along local paths. Cost: one demand test per node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from kigen.placement.network import Route, arrival_us, traffic_of
from kigen.placement.problem import Problem
from kigen.placement.result import LinkLoad, NodeLoad, PlacedTask, Placement
from kigen.placement.solver.activation_jitter import jitters
from kigen.placement.solver.demand import fit, sporadic
from kigen.placement.solver.node_demand import local_fit
from kigen.placement.solver.split import Shares, by_work, least
from kigen.placement.tasks import extract_tasks, finish_us, late

_FULL = 1 + 1e-6


def assemble(
    problem: Problem,
    nodes: Mapping[str, str],
    routes: Mapping[str, Route],
    shares: Shares,
    bound: float,
    method: str,
    notes: tuple[str, ...] = (),
) -> Placement:
    """Returns the placement with all its figures."""
    operator_us = least(shares)
    arrivals = arrival_us(problem, nodes, routes)
    tasks = extract_tasks(problem, nodes, operator_us, arrivals)
    finish = finish_us(problem, tasks, arrivals, nodes)
    if any(t.period_us is not None for t in tasks):
        jitter = jitters(problem, tasks, arrivals, nodes)
        loads = {n: _node_load(n, tasks, jitter) for n in problem.node}
    else:
        loads = {n: NodeLoad(None, local_fit(problem, nodes, operator_us, n).demand) for n in problem.node}
    links = link_loads(problem, routes)
    wrong = [
        f"output {o}: the path is {us / 1000:.3f} ms longer than its deadline"
        for o, us in late(problem, arrivals, nodes, finish).items()
    ]
    wrong += [
        f"node {n}: work of {100 * load.demand:.1f} % of the time is due in the tightest span"
        for n, load in loads.items()
        if load.demand > _FULL
    ]
    wrong += [
        f"link {l.source} -> {l.target}: {100 * l.used:.1f} % of its bandwidth"
        for l in links
        if l.used is not None and l.used > _FULL
    ]
    return Placement(
        nodes={o.name: nodes[o.name] for o in problem.operators},
        routes=dict(routes),
        sub_deadlines_us=dict(shares),
        operator_us=operator_us,
        tasks=tasks,
        node_loads=loads,
        link_loads=links,
        traffic=traffic_of(problem, routes),
        bound=bound,
        spread=spread(problem, shares),
        holds=not wrong,
        method=method,
        slack=1 - max(load.demand for load in loads.values()),
        notes=(*notes, *wrong),
    )


def spread(problem: Problem, shares: Shares) -> float:
    """Returns the paper's objective (2): the sum of distances of normalised laxity ratios from those of an even
    split.
    """
    even = by_work(problem)
    return sum(abs(even[k] - shares[k]) / problem.work_us[k[1]] for k in shares if problem.work_us[k[1]] > 0)


def _node_load(node: str, tasks: tuple[PlacedTask, ...], jitter: Mapping[str, float]) -> NodeLoad:
    mine = [t for t in tasks if t.node == node]
    curves = [sporadic(t.sub_deadline_us, t.work_us, t.period_us, jitter[t.name]) for t in mine]
    found = fit(curves, 1.0, [(t.sub_deadline_us, t.tuple_us) for t in mine if t.period_us is not None])
    return NodeLoad(found.rate, found.demand)


def link_loads(problem: Problem, routes: Mapping[str, Route]) -> tuple[LinkLoad, ...]:
    """Returns the load of every link that carries a stream."""
    streams: dict[tuple[str, str], list[str]] = defaultdict(list)
    for stream, links in routes.items():
        for link in links:
            streams[link].append(stream)
    found = []
    for (a, b), names in sorted(streams.items()):
        traffic = sum(problem.traffic[s] for s in names)
        width = problem.link[a, b].bytes_per_s
        rate = sum(problem.traffic[s] for s in names if problem.period_us[s] is not None)
        found.append(LinkLoad(a, b, tuple(sorted(names)), traffic, None if width is None or not rate else rate / width))
    return tuple(found)
