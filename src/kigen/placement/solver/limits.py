"""Why a placement cannot hold: bounds that no placement escapes, and the deadlines that would do.

Invariant: what `impossible` says is proven; what `needed` says is one way out, not the only one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kigen.placement.network import Network
from kigen.placement.problem import Problem


def check_reachable(problem: Problem, network: Network) -> list[str]:
    """Streams that cannot get from where they are made to where they are wanted, whatever is chosen."""
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
                    f"operator {maker} may run on {where}, but stream {lost[0]} has no way there: add a link, or let "
                    "it run elsewhere"
                )
                at = set(problem.node)  # say each cause once
        can[s] = {n for a in at for n in network.reach(a)}
    for output in problem.outputs:
        if output.sink not in can[output.stream]:
            wrong.append(
                f"results of {output.name} have no way to node {output.sink}: add a link to it, or want them elsewhere"
            )
    return wrong


def impossible(problem: Problem, network: Network) -> list[str]:
    """Deadlines shorter than the work and the links on the fastest nodes; more work than all nodes can do."""
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
    outputs = (
        replace(o, deadline_us=o.deadline_us * (factor if only is None or o.name in only else 1.0))
        for o in problem.outputs
    )
    return replace(problem, outputs=tuple(outputs))


def needed(problem: Problem, holds: Callable[[Problem], bool], left_s: Callable[[], float]) -> list[str]:
    """The least common factor on all deadlines for which `holds` is true; then outputs get their own deadline back
    where that changes nothing. Coarser when time is short."""
    low, high = 1.0, 2.0
    while high < 1e3:
        if left_s() <= 0:
            return ["which deadlines would do was not looked for: the time limit is over; give it more"]
        if holds(stretched(problem, high)):
            break
        low, high = high, high * 2
    if high >= 1e3:
        return ["no deadlines, however long, make it hold: a node or a link has more to do than it can"]
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
