"""Checks that a placement problem is sound: names exist, no cycles, every stream has one producer or birthplace."""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kigen.placement.problem import Problem, ProblemStream


class ProblemError(ValueError):
    """The placement problem is invalid."""


def check_problem(problem: Problem) -> None:
    """Raises ProblemError that says what to change."""
    for kind in ("nodes", "streams", "operators", "outputs"):
        names = [item.name for item in getattr(problem, kind)]
        require(len(names) == len(set(names)), f"the names of {kind} must differ; these occur twice: {_twice(names)}")
    nodes, streams = set(problem.node), set(problem.stream)
    require(bool(nodes), "a placement needs at least one node")
    for node in problem.nodes:
        require(node.speed > 0, f"node {node.name}: speed must be above 0; got {node.speed:g}")
    for link in problem.links:
        _known((link.source, link.target), nodes, f"link {link.source} -> {link.target}", "node")
    for op in problem.operators:
        _known((*op.inputs, op.output), streams, f"operator {op.name}", "stream")
        _known(op.nodes, nodes, f"operator {op.name}", "node")
        require(bool(op.inputs), f"operator {op.name} needs an input")
        require(op.cost_us > 0, f"operator {op.name}: cost_us must be above 0; got {op.cost_us:g}")
    for output in problem.outputs:
        _known((output.stream,), streams, f"output {output.name}", "stream")
        _known((output.sink,), nodes, f"output {output.name}", "node")
        require(
            output.deadline_us > 0, f"output {output.name}: deadline_us must be above 0; got {output.deadline_us:g}"
        )
    for stream in problem.streams:
        _known(stream.born, nodes, f"stream {stream.name}", "node")
        maker = problem.producer.get(stream.name)
        require(bool(stream.born) != (maker is not None), _origin(stream, maker))
    try:
        _ = problem.order
    except CycleError as error:
        raise ProblemError(f"operators feed each other in a cycle: {' -> '.join(error.args[1])}") from error
    served = {o for ops in problem.needed.values() for o in ops}
    idle = [o.name for o in problem.operators if o.name not in served]
    require(not idle, f"no output needs the results of {', '.join(idle)}: add an output, or remove them")


def require(held: bool, message: str) -> None:
    """Raises ProblemError with the message unless the condition holds."""
    if not held:
        raise ProblemError(message)


def _known(names: Iterable[str], known: set[str], where: str, what: str) -> None:
    for name in names:
        require(
            name in known,
            f"{where} names {what} {name}, which does not exist; the {what}s are {', '.join(sorted(known))}",
        )


def _twice(names: list[str]) -> str:
    return ", ".join(sorted({n for n in names if names.count(n) > 1}))


def _origin(stream: ProblemStream, maker: str | None) -> str:
    if maker is not None:
        return (
            f"stream {stream.name} is produced by operator {maker} and born at {', '.join(stream.born)}: it must be "
            "one of them"
        )
    return f"stream {stream.name} has no origin: say at which node it is born"
