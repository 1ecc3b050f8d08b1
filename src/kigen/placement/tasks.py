"""Task extraction: which operators of a node run as one task, and how long a task may take.

Two operators merge when the first gives its stream only to the second and the second reads nothing else. If the first
feeds several operators, it merges along the path to the shortest end-to-end deadline. A task's sub-deadline is the sum
of its operators' sub-deadlines. A merge at a branch makes the other branches wait for the whole task, so it is done
only where their deadlines still hold. Invariant: every operator is in exactly one task, and the operators of a task
form a path on one node. Cost: operators times merges at branches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kigen.placement.problem import Problem
from kigen.placement.result import PlacedTask

Arrivals = Mapping[str, Mapping[str, float]]  # stream -> node -> time on links


@dataclass
class _Groups:
    """Tasks while they grow: operator -> the first operator of its task."""

    problem: Problem
    nodes: Mapping[str, str]
    operator_us: Mapping[str, float]
    arrivals: Arrivals
    head: dict[str, str] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for o in self.problem.order:
            self.head[o], self.members[o] = o, [o]

    def merge(self, first: str, second: str) -> None:
        """Appends the task with head `second` to the task with tail `first`."""
        head = self.head[first]
        for o in self.members[second]:
            self.head[o] = head
        self.members[head] += self.members.pop(second)

    def cut(self, second: str) -> None:
        """Splits a task before `second`."""
        head = self.head[second]
        at = self.members[head].index(second)
        self.members[second] = self.members[head][at:]
        self.members[head] = self.members[head][:at]
        for o in self.members[second]:
            self.head[o] = second

    def sub_deadline(self, head: str) -> float:
        return sum(self.operator_us[o] for o in self.members[head])


def extract_tasks(
    problem: Problem, nodes: Mapping[str, str], operator_us: Mapping[str, float], arrivals: Arrivals
) -> tuple[PlacedTask, ...]:
    """Merges the operators of each node into tasks."""
    groups = _Groups(problem, nodes, operator_us, arrivals)
    sinks = {o.stream for o in problem.outputs}
    tightest = _tightest(problem)
    branches: list[tuple[str, str]] = []
    for first in problem.order:
        stream = problem.operator[first].output
        readers = problem.consumers[stream]
        local = [r for r in readers if nodes[r] == nodes[first] and len(set(problem.operator[r].inputs)) == 1]
        if len(readers) == 1 and stream not in sinks and local:
            groups.merge(first, local[0])
        elif local:
            ends = [o.deadline_us for o in problem.outputs if o.stream == stream] + [tightest[r] for r in readers]
            second = min(local, key=lambda r: tightest[r])
            if tightest[second] <= min(ends):
                branches.append((first, second))
    for first, second in branches:
        if groups.members[groups.head[first]][-1] == first and groups.head[second] == second:
            groups.merge(first, second)
            if late(problem, groups.arrivals, nodes, _finish(groups)):
                groups.cut(second)
    return tuple(_task(groups, i, head) for i, head in enumerate((o for o in problem.order if o in groups.members), 1))


def _tightest(problem: Problem) -> dict[str, float]:
    """Returns operator -> the shortest end-to-end deadline of an output that needs it."""
    found = dict.fromkeys(problem.operator, float("inf"))
    for output in problem.outputs:
        for o in problem.needed[output.name]:
            found[o] = min(found[o], output.deadline_us)
    return found


def _task(groups: _Groups, number: int, head: str) -> PlacedTask:
    problem, operators = groups.problem, tuple(groups.members[head])
    speed = problem.node[groups.nodes[head]].speed
    inside = {problem.operator[o].output for o in operators}
    wanted = {o.stream for o in problem.outputs}
    given = [
        s
        for o in operators
        if (s := problem.operator[o].output) in wanted or set(problem.consumers[s]) - set(operators)
    ]
    one, tuple_us = 1.0, 0.0
    for o in operators:
        tuple_us += one * problem.operator[o].cost_us
        one *= max(1.0, problem.operator[o].selectivity)
    return PlacedTask(
        name=f"T{number}",
        node=groups.nodes[head],
        operators=operators,
        inputs=tuple(dict.fromkeys(s for s in problem.operator[head].inputs if s not in inside)),
        outputs=tuple(given) or (problem.operator[operators[-1]].output,),
        sub_deadline_us=groups.sub_deadline(head),
        work_us=sum(problem.work_us[o] for o in operators) / speed,
        tuple_us=tuple_us / speed,
        period_us=problem.period_us[problem.operator[head].output],
    )


def _finish(groups: _Groups) -> dict[str, float]:
    """Returns stream -> its latest time of completion, counted from the birth of its tuples.

    A task completes all its streams at its own end.
    """
    problem, finish = groups.problem, dict[str, float]()
    for o in problem.order:
        if groups.head[o] == o:
            end = _release(problem, groups.arrivals, groups.nodes, finish, o) + groups.sub_deadline(o)
            finish |= {problem.operator[m].output: end for m in groups.members[o]}
    return finish


def finish_us(
    problem: Problem, tasks: tuple[PlacedTask, ...], arrivals: Arrivals, nodes: Mapping[str, str]
) -> dict[str, float]:
    """Returns stream -> its latest time of completion, by the sub-deadlines of the tasks."""
    order = {o: i for i, o in enumerate(problem.order)}
    finish: dict[str, float] = {}
    for task in sorted(tasks, key=lambda t: order[t.operators[0]]):
        end = _release(problem, arrivals, nodes, finish, task.operators[0]) + task.sub_deadline_us
        finish |= {problem.operator[o].output: end for o in task.operators}
    return finish


def _release(
    problem: Problem, arrivals: Arrivals, nodes: Mapping[str, str], finish: Mapping[str, float], first: str
) -> float:
    return max(finish.get(s, 0.0) + arrivals[s][nodes[first]] for s in problem.operator[first].inputs)


def late(
    problem: Problem, arrivals: Arrivals, nodes: Mapping[str, str], finish: Mapping[str, float]
) -> dict[str, float]:
    """Returns output -> by how much its longest path exceeds its deadline, for those that do."""
    found = {}
    for output in problem.outputs:
        end = finish.get(output.stream, 0.0) + arrivals[output.stream][output.sink]
        if end > output.deadline_us * (1 + 1e-7) + 1e-6:
            found[output.name] = end - output.deadline_us
    return found
