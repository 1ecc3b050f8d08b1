"""SQPR, the allocation that the paper compares with: least traffic and balanced load, ignoring deadlines.

Kalyvianaki et al., ICDE 2011, as far as the paper uses it: a weighted sum of the traffic (as a share of all streams'
bytes) and the load of the fullest node (as a share of all work). It has no sub-deadlines: `solve` gives it those of the
other allocation.
"""

from __future__ import annotations

from kigen.placement.network import Network
from kigen.placement.problem import Problem
from kigen.placement.solver.fixed import FixedModel
from kigen.placement.solver.node_demand import NodeDemand

_NO_DEADLINE = 1e15


def sqpr(problem: Problem, network: Network, time_limit_s: float, balance: float = 1.0) -> dict[str, str]:
    """Returns operator -> node. `balance` weighs the fullest node against the traffic."""
    demand = NodeDemand(problem, dict.fromkeys(problem.operator, _NO_DEADLINE))
    model = FixedModel(problem, network, demand, dict.fromkeys(problem.node, 0.0))
    if not model.free:
        return model.nodes(model.start({}))
    bytes_of_all = sum(problem.traffic.values()) or 1.0
    work_of_all = sum(problem.work_us.values()) or 1.0
    model.mip.minimise({column: problem.traffic[s] / bytes_of_all for (_, _, s), column in model.x.items()})
    fullest = model.mip.column(0.0, cost=balance)
    for n, node in problem.node.items():
        terms, there = {fullest: -1.0}, 0.0
        for o, work in problem.work_us.items():
            share = work / work_of_all / node.speed
            if (n, o) in model.z:
                terms[model.z[n, o]] = share
            elif model.place[o] == (n,):
                there += share
        model.mip.row(terms, upper=-there)
    answer = model.mip.solve(time_limit_s)
    return (
        model.nodes(answer.values) if answer.values is not None else {o: places[0] for o, places in model.place.items()}
    )
