"""Explains why a placement cannot hold: bounds that no placement escapes, and deadlines that would suffice.

Invariant: what `impossible` reports is proven; what `needed` reports is one way out, not the only one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kigen.placement.network import Network
from kigen.placement.problem import Problem


def check_reachable(problem: Problem, network: Network) -> list[str]:
    """Returns an error for each stream that cannot get from its origin to where it is wanted, whatever is chosen."""
    wrong, can = [], dict[str, set[str]]()  # stream -> nodes it can be at
    for s in (
        *(s for s in problem.stream if s not in problem.producer),
        *(problem.operator[o].output for o in problem.order),
    ):
        maker = problem.producer.get(s)
        if maker is None:
            at = set(problem.stream[s].born)
        else:
            inputs = problem.operator[maker].inputs
            at = {n for n in problem.allowed[maker] if all(n in can[i] for i in inputs)}
            if not at:
                where = ", ".join(problem.allowed[maker])
                lost = [i for i in inputs if not can[i] & set(problem.allowed[maker])] or list(inputs)
                wrong.append(
                    f"operator {maker} may run on {where}, but stream {lost[0]} has no route to it: add a link, or let "
                    "the operator run elsewhere"
                )
                at = set(problem.node)  # report each cause once
        can[s] = {n for a in at for n in network.reach(a)}
    for output in problem.outputs:
        if output.sink not in can[output.stream]:
            wrong.append(
                f"results of {output.name} have no route to node {output.sink}: add a link, or choose another node"
            )
    return wrong


def impossible(problem: Problem, network: Network) -> list[str]:
    """Returns deadlines that are shorter than the work and links on the fastest nodes, and whether all nodes have too
    little CPU.
    """
    wrong = []
    for output in problem.outputs:
        least_us = _least_time(problem, network, output.stream, output.sink)
        if least_us > output.deadline_us * (1 + 1e-9):
            wrong.append(
                f"the deadline of {output.name} ({output.deadline_us / 1000:g} ms) cannot hold: its longest path needs "
                f"{least_us / 1000:.3f} ms on the fastest nodes allowed, "
                f"{(least_us - output.deadline_us) / 1000:.3f} ms more"
            )
    rate = sum(
        problem.work_us[o] / p
        for o in problem.operator
        if (p := problem.period_us[problem.operator[o].output]) is not None
    )
    speed = sum(n.speed for n in problem.nodes)
    if rate > speed:
        wrong.append(
            f"all operators together need {rate:.2f} CPUs of speed 1; the nodes have {speed:.2f}: add nodes, or shed "
            "tuples"
        )
    return wrong


def _least_time(problem: Problem, network: Network, stream: str, sink: str) -> float:
    """Returns the least time from birth to the sink, over all choices of nodes."""
    at: dict[str, dict[str, float]] = {
        s: dict.fromkeys(problem.stream[s].born, 0.0) for s in problem.stream if s not in problem.producer
    }
    for o in problem._upstream(stream):
        op = problem.operator[o]
        at[op.output] = {
            n: max(_reach(network, at[s], n) for s in op.inputs) + problem.work_us[o] / problem.node[n].speed
            for n in problem.allowed[o]
        }
    return _reach(network, at[stream], sink)


def _reach(network: Network, at: dict[str, float], node: str) -> float:
    return min((t + network.delay_us(n, node) for n, t in at.items() if node in network.reach(n)), default=float("inf"))


def stretched(problem: Problem, factor: float, only: set[str] | None = None) -> Problem:
    """Returns the problem with longer deadlines."""
    outputs = (
        replace(o, deadline_us=o.deadline_us * (factor if only is None or o.name in only else 1.0))
        for o in problem.outputs
    )
    return replace(problem, outputs=tuple(outputs))


def needed(problem: Problem, holds: Callable[[Problem], bool], left_s: Callable[[], float]) -> list[str]:
    """Returns deadlines for which `holds` is true.

    Finds the least common factor on all deadlines, then restores the deadlines of outputs where that changes nothing.
    The search is coarser when time is short.
    """
    low, high = 1.0, 2.0
    while high < 1e3:
        if left_s() <= 0:
            return ["deadlines that would suffice were not sought: the time limit is over; allow more time"]
        if holds(stretched(problem, high)):
            break
        low, high = high, high * 2
    if high >= 1e3:
        return ["no deadlines, however long, suffice: a node or a link is overloaded"]
    while high / low > 1.02 and left_s() > 0:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if holds(stretched(problem, middle)) else (middle, high)
    blame = {o.name for o in problem.outputs}
    for output in sorted(problem.outputs, key=lambda o: -o.deadline_us):
        if len(blame) > 1 and left_s() > 0 and holds(stretched(problem, high, blame - {output.name})):
            blame.discard(output.name)
    return [
        f"the deadline of {o.name} ({o.deadline_us / 1000:g} ms) is too short for what was found: "
        f"{o.deadline_us * high / 1000:.3f} ms "
        f"would do, {o.deadline_us * (high - 1) / 1000:.3f} ms more"
        for o in problem.outputs
        if o.name in blame
    ]
