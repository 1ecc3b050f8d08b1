"""Makes a placement problem from an app and a nodes file: every operator of the plan, its cost, and where it may run.

An operator is named by the first query that needs it and what it does: `hot.filter`, `hot.window2`. Costs and
selectivities come from the nodes file, else from a profile (a task's cost per tuple, divided over its operators by
`_WEIGHT`), else from guesses, with a warning. Invariant: equal sub-plans are one operator, since they run once. Cost:
linear in the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kigen.placement.nodes_file.entries import NodesFile, NodesFileError
from kigen.placement.nodes_file.values import suggest
from kigen.placement.problem import Problem, ProblemOperator, ProblemOutput, ProblemStream
from kigen.placement.profile import Profile
from kigen.plan import logical as plan
from kigen.plan.tasks import extract_tasks
from kigen.plan.types import Schema, Type

_NARROW = (Type.BOOLEAN, Type.BIGINT, Type.DOUBLE, Type.TIMESTAMP, Type.DATE, Type.TIME)  # types of 8 bytes

# Relative cost per tuple and kind of operator. `_SELECTIVITY`: guessed tuples out per tuple in.
_WEIGHT = {
    "window": 1.0,
    "filter": 1.0,
    "project": 1.0,
    "join": 4.0,
    "aggregate": 3.0,
    "distinct": 2.0,
    "except": 3.0,
    "intersect": 3.0,
}
_SELECTIVITY = {"filter": 0.5, "distinct": 0.5}
_GUESS_US = 5.0  # cost of weight 1
_GUESS_RATE = 1000.0


@dataclass(frozen=True)
class PlacedPlan:
    """A placement problem with its plan.

    `plan_nodes`: operator -> its node of the plan, without those that have their node already. `suffix`: end of the
    names of these operators, and of the streams that are sent for them.
    """

    problem: Problem
    plan_nodes: dict[str, plan.PlanNode]
    warnings: tuple[str, ...]
    suffix: str = ""


@dataclass(frozen=True)
class Layer:
    """Queries whose operators are placed together and shared among them only. `hosts`: where each of their operators
    runs already; None: that is to be decided."""

    queries: tuple[plan.Query, ...]
    suffix: str = ""
    hosts: Mapping[plan.PlanNode, str] | None = None


def name_operators(app: plan.App) -> dict[plan.PlanNode, str]:
    """Names every operator of the plan, children first."""
    names: dict[plan.PlanNode, str] = {}
    for query in app.queries:
        used: Counter[str] = Counter()
        for node in query.root.walk():
            if isinstance(node, plan.Scan) or node in names:
                continue
            kind = kind_of(node)
            used[kind] += 1
            names[node] = f"{query.name}.{kind}" + (str(used[kind]) if used[kind] > 1 else "")
    return names


def kind_of(node: plan.PlanNode) -> str:
    """Returns the kind of an operator, as used in its name."""
    if isinstance(node, plan.ToStream):
        return node.kind.value.lower()
    return "union" if isinstance(node, plan.UnionAll) else type(node).__name__.lower()


def from_plan(
    app: plan.App, nodes: NodesFile, profile: Profile | None = None, layers: tuple[Layer, ...] = ()
) -> PlacedPlan:
    """Makes the placement problem. `layers`: of an app that has changed; at most the last one is still to be placed."""
    names = name_operators(app)
    _check(app, nodes, names)
    warnings: list[str] = []
    sources = [_source(app, stream, nodes, profile, warnings) for stream in app.streams if _is_read(app, stream.name)]
    costs = _costs(app, names, profile)
    guessed, wrong = 0, list[str]()
    operators, streams, outputs = list[ProblemOperator](), list(sources), list[ProblemOutput]()
    plan_nodes: dict[str, plan.PlanNode] = {}
    suffix = ""
    for layer in layers or (Layer(app.queries),):
        below = (node for query in layer.queries for node in query.root.walk() if not isinstance(node, plan.Scan))
        mine = {node: names[node] + layer.suffix for node in below}
        for node, name in mine.items():
            given = nodes.operators.get(names[node])
            kind = kind_of(node)
            cost = given.cost_us if given is not None and given.cost_us is not None else costs.get(names[node])
            guessed += cost is None
            inputs = tuple(dict.fromkeys(_stream_of(child, mine) for child in node.shown_children))
            share = given.selectivity if given is not None else None
            if share is None:
                share = _selectivity(app, node, kind, profile)
            allowed = given.nodes if given is not None else ()
            if layer.hosts is not None:
                if allowed and layer.hosts[node] not in allowed:
                    wrong.append(_moved(names[node], layer.hosts[node], allowed))
                allowed = (layer.hosts[node],)
            cost_us = cost or _GUESS_US * _WEIGHT.get(kind, 1.0)
            operators.append(ProblemOperator(name, inputs, f"{name} >", cost_us, share, allowed))
            streams.append(ProblemStream(f"{name} >", bytes_per_tuple=_bytes(node.schema, node.is_stream)))
        outputs += [_output(query, nodes, mine) for query in layer.queries]
        if layer.hosts is None:
            plan_nodes |= {name: node for node, name in mine.items()}
            suffix = layer.suffix
    if wrong:
        raise NodesFileError(nodes.file, tuple(wrong))
    if guessed:
        warnings.append(
            f"{guessed} of {len(operators)} operators have no measured cost: they are guessed. Give --profile FILE, a "
            "report that 'kigen run --report FILE' of a trial wrote, or cost_us in the nodes file"
        )
    problem = Problem(tuple(n.node for n in nodes.nodes), nodes.links, tuple(streams), tuple(operators), tuple(outputs))
    return PlacedPlan(problem, plan_nodes, tuple(warnings), suffix)


def _output(query: plan.Query, nodes: NodesFile, names: dict[plan.PlanNode, str]) -> ProblemOutput:
    deadline_us = float(query.deadline_us or nodes.default_deadline_us)
    return ProblemOutput(query.name, _stream_of(query.root, names), sink_of(nodes, query.name), deadline_us)


def _moved(operator: str, host: str, allowed: tuple[str, ...]) -> str:
    return (
        f'[operators."{operator}"] nodes: it runs on {host} and keeps its state there, so it cannot move to '
        f"{', '.join(allowed)}: allow {host}, or give another --state directory to place everything anew"
    )


def _is_read(app: plan.App, stream: str) -> bool:
    return any(stream in q.streams for q in app.queries)


def _check(app: plan.App, nodes: NodesFile, names: dict[plan.PlanNode, str]) -> None:
    """Checks that everything the nodes file names exists in the app, and that every stream and query has its node."""
    errors: list[str] = []
    streams, queries = [s.name for s in app.streams], [q.name for q in app.queries]

    def known(section: str, given: Iterable[str], there: list[str], what: str) -> None:
        for name in given:
            if name not in there:
                errors.append(f"[{section}] {name}: the app has no such {what}; {suggest(name, there, 'there is')}")

    known("streams", nodes.streams, streams, "stream")
    known("results", nodes.results, [*queries, "default"], "query")
    known("operators", nodes.operators, list(names.values()), "operator")
    first = nodes.nodes[0].name
    for stream in app.streams:
        if _is_read(app, stream.name) and stream.name not in nodes.streams and len(nodes.nodes) > 1:
            errors.append(
                f'stream {stream.name} is born nowhere: write [streams.{stream.name}] and below it born = "{first}"'
            )
    for query in queries:
        if query not in nodes.results and "default" not in nodes.results and len(nodes.nodes) > 1:
            errors.append(
                f'results of {query} are wanted nowhere: write {query} = "{first}" below [results], or default = '
                f'"{first}"'
            )
    if errors:
        raise NodesFileError(nodes.file, tuple(errors))


def sink_of(nodes: NodesFile, query: str) -> str:
    """Returns the node where results of a query are wanted."""
    return nodes.results.get(query) or nodes.results.get("default") or nodes.nodes[0].name


def _stream_of(node: plan.PlanNode, names: dict[plan.PlanNode, str]) -> str:
    return node.stream if isinstance(node, plan.Scan) else f"{names[node]} >"


def _source(
    app: plan.App, stream: plan.SourceStream, nodes: NodesFile, profile: Profile | None, warnings: list[str]
) -> ProblemStream:
    entry = nodes.streams.get(stream.name)
    rate = entry.rate if entry is not None else None
    if rate is None and isinstance(stream.source.option("rate"), int | float):
        rate = float(stream.source.option("rate"))
    if rate is None and profile is not None:
        only = [q.name for q in app.queries if q.streams == (stream.name,) and q.name in profile.rate]
        rate = max((profile.rate[q] for q in only), default=None)
    if rate is None:
        rate = _GUESS_RATE
        warnings.append(
            f"the rate of stream {stream.name} is unknown; {rate:g} tuples/s are assumed: write rate = ... below "
            f"[streams.{stream.name}]"
        )
    if stream.shed is not None:
        rate = min(rate, stream.shed.above_per_second)
    period = (entry.period_us if entry is not None else None) or nodes.period_us
    size = entry.tuple_bytes if entry is not None and entry.tuple_bytes is not None else _bytes(stream.schema, True)
    born = entry.born if entry is not None else (nodes.nodes[0].name,)
    return ProblemStream(stream.name, born, rate * period / 1e6, period, size)


def _bytes(schema: Schema, is_stream: bool) -> float:
    """Returns the bytes of a tuple in Arrow: 8 per value (more for strings), one time for a stream, two for a
    relation.
    """
    return sum(8.0 if c.type in _NARROW else 16.0 for c in schema) + (8.0 if is_stream else 16.0)


def _costs(app: plan.App, names: dict[plan.PlanNode, str], profile: Profile | None) -> dict[str, float]:
    """Returns the cost per tuple of each operator: a task's measured cost divided over its operators, or a query's COST
    at its root.
    """
    found: dict[str, float] = {}
    for task in extract_tasks(app):
        mine = list(dict.fromkeys(n for q in task.queries for n in q.root.walk() if n in names))
        total = sum(_WEIGHT.get(kind_of(n), 1.0) for n in mine)
        measured = profile.task_us.get(task.name) if profile is not None else None
        if measured is not None:
            found |= {names[n]: measured * _WEIGHT.get(kind_of(n), 1.0) / total for n in mine}
        else:
            found |= {
                names[q.root]: float(q.cost_us) for q in task.queries if q.cost_us is not None and q.root in names
            }
    return found


def _selectivity(app: plan.App, node: plan.PlanNode, kind: str, profile: Profile | None) -> float:
    """Returns the selectivity of an operator. A query's measured share goes to its root; what is below is guessed by
    kind.
    """
    for query in app.queries:
        if query.root == node and profile is not None and query.name in profile.selectivity:
            below = 1.0
            for inner in query.root.walk():
                if inner != node:
                    below *= _SELECTIVITY.get(kind_of(inner), 1.0)
            return profile.selectivity[query.name] / below
    return _SELECTIVITY.get(kind, 1.0)
