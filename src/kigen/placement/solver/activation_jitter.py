"""Jitter of activations: how much closer together they may come than the period, because earlier tasks respond
unevenly.

No task responds later than its node's longest busy time, nor (while all deadlines hold) than its sub-deadline. Busy
times depend on jitter and jitter on busy times, over all nodes. The least fixed point is approached from below, so it
is a bound for every schedule that never idles while there is work. Cost: some rounds over the tasks. For a node that is
never idle, the sub-deadlines are the bounds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from kigen.placement.problem import Problem
from kigen.placement.result import PlacedTask
from kigen.placement.tasks import Arrivals

_ROUNDS = 50
_CLOSE = 1e-6


def jitters(
    problem: Problem, tasks: tuple[PlacedTask, ...], arrivals: Arrivals, nodes: Mapping[str, str]
) -> dict[str, float]:
    """Returns task -> the latest arrival of its input minus the earliest."""
    order = {o: i for i, o in enumerate(problem.order)}
    tasks = tuple(sorted(tasks, key=lambda t: order[t.operators[0]]))
    answer = dict.fromkeys((t.name for t in tasks), 0.0)
    found: dict[str, float] = {}
    for _ in range(_ROUNDS):
        found = _spread(problem, tasks, arrivals, answer)
        busy = _busy(tasks, found)
        after = {t.name: min(t.sub_deadline_us, busy[t.node]) for t in tasks}
        if all(after[t] <= answer[t] * (1 + _CLOSE) for t in answer):
            return found
        answer = {t: max(after[t], answer[t]) for t in answer}
    return _spread(problem, tasks, arrivals, {t.name: t.sub_deadline_us for t in tasks})


def _spread(
    problem: Problem, tasks: tuple[PlacedTask, ...], arrivals: Arrivals, answer: Mapping[str, float]
) -> dict[str, float]:
    latest: dict[str, float] = {}
    earliest: dict[str, float] = {}
    found = {}
    for task in tasks:
        ways = [arrivals[s][task.node] for s in task.inputs]
        last = max(latest.get(s, 0.0) + way for s, way in zip(task.inputs, ways, strict=True))
        first = min(earliest.get(s, 0.0) + way for s, way in zip(task.inputs, ways, strict=True))
        fed = any(s in problem.producer for s in task.inputs)
        found[task.name] = last - first if fed else 0.0
        for o in task.operators:
            latest[problem.operator[o].output] = last + answer[task.name]
            earliest[problem.operator[o].output] = first
    return found


def _busy(tasks: tuple[PlacedTask, ...], jitter: Mapping[str, float]) -> dict[str, float]:
    """Returns node -> the longest time it can be busy without a break."""
    by_node: dict[str, list[PlacedTask]] = defaultdict(list)
    for task in tasks:
        by_node[task.node].append(task)
    found = {}
    for node, mine in by_node.items():
        rate = sum(t.work_us / t.period_us for t in mine if t.period_us is not None)
        length = sum(t.work_us for t in mine)
        for _ in range(1000 if rate < 1 else 0):
            more = sum(
                t.work_us * (1 if t.period_us is None else math.ceil((length + jitter[t.name]) / t.period_us - 1e-9))
                for t in mine
            )
            if more <= length * (1 + _CLOSE):
                break
            length = more
        else:
            length = math.inf
        found[node] = length
    return found
