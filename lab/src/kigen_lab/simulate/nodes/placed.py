"""Turns a placement into nodes in virtual time: its tasks, routes and links, and the tuples of its sources."""

from __future__ import annotations

from collections.abc import Mapping

from kigen.placement import Placement, Problem
from kigen.placement.network import arrival_us
from kigen.placement.result import PlacedTask
from kigen.placement.tasks import finish_us
from kigen_lab.simulate.nodes.model import NodeTask, Parcel, Release, Sink, Step, System, Wire


def system_of(problem: Problem, placement: Placement, nominal: bool = False) -> System:
    """Returns the nodes as the placement fills them.

    With `nominal`, a task's sub-deadline begins when its tuples are due there, even if they arrive earlier. Otherwise
    it begins when they arrive, as in the paper.
    """
    releases = _releases(problem, placement) if nominal else {}
    return System(
        {node.name: node.speed for node in problem.nodes},
        tuple(_task(problem, task, releases.get(task.name)) for task in placement.tasks),
        tuple(Sink(output.name, output.stream, output.sink, output.deadline_us) for output in problem.outputs),
        placement.routes,
        {(link.source, link.target): Wire(link.delay_us, link.bytes_per_s) for link in problem.links},
        {stream.name: stream.bytes_per_tuple for stream in problem.streams},
    )


def _releases(problem: Problem, placement: Placement) -> dict[str, float]:
    """Returns for each task the latest time after their birth at which its tuples arrive."""
    arrivals = arrival_us(problem, placement.nodes, placement.routes)
    finish = finish_us(problem, placement.tasks, arrivals, placement.nodes)
    return {
        task.name: max(finish.get(s, 0.0) + arrivals[s][task.node] for s in task.inputs) for task in placement.tasks
    }


def _task(problem: Problem, task: PlacedTask, nominal_us: float | None) -> NodeTask:
    operators = [problem.operator[name] for name in task.operators]
    steps = tuple(Step(op.name, op.cost_us, (op.output,), op.selectivity) for op in operators)
    return NodeTask(task.name, task.node, task.inputs, steps, task.sub_deadline_us, operators[0].waits, nominal_us)


def once(problem: Problem, ages_us: Mapping[str, float] | None = None, at_us: float = 0.0) -> list[Release]:
    """Returns one activation of every source, all at once, the streams in the order of the problem.

    `ages_us` gives the age by stream.
    """
    return [
        Release(
            stream.name,
            node,
            at_us,
            Parcel(stream.name, round(stream.tuples), at_us - (ages_us or {}).get(stream.name, 0.0)),
        )
        for stream in problem.streams
        for node in stream.born
        if stream.tuples
    ]


def periodic(problem: Problem, until_us: float, offsets_us: Mapping[str, float] | None = None) -> list[Release]:
    """Returns activations of every source with a period, from its offset until `until_us`.

    Streams that meet in an operator that waits need the same period; the n-th activations meet.
    """
    releases = []
    for stream in problem.streams:
        if not stream.born or not stream.tuples or stream.period_us is None:
            continue
        at_us, job = (offsets_us or {}).get(stream.name, 0.0), 0
        while at_us < until_us:
            parcel = Parcel(f"{stream.name}#{job}", round(stream.tuples), at_us, job)
            releases += [Release(stream.name, node, at_us, parcel) for node in stream.born]
            at_us, job = at_us + stream.period_us, job + 1
    return releases
