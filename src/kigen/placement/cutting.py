"""Cuts an app into the parts of its nodes. Where a plan crosses from one node to another, one side sends rows and the
other receives them.

A node's part is an app of its own: the queries whose results are wanted there, and one query for each stream that other
nodes need from it, which goes `INTO link`. What comes from elsewhere is a stream `FROM link`: a `Scan` if it is a
stream, `Received` if it is a relation. Invariant: the parts together give, for every query, the lines of the whole, and
each operator runs on the node that the placement names. Deadlines of the parts count from the arrival of a tuple at its
first node: the deadline of a sent stream is the latest time at which it must be there. What gives rows periodically
ends with its query: on a node that does not read all streams of the query it gets clocks of the others
(`kigen.placement.clocks`). What only FIRM queries need is sent FIRM: a node drops what cannot be in time at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kigen.placement.clocks import clock_name, clock_plan, is_periodic, other_streams, periodic_name
from kigen.placement.from_plan import PlacedPlan
from kigen.placement.network import Network, Route, arrival_us
from kigen.placement.nodes_file.entries import NodesFile
from kigen.placement.result import Placement
from kigen.placement.tasks import finish_us
from kigen.plan.logical import LINK, App, Clocked, Connector, PlanNode, Query, Received, Scan, SourceStream
from kigen.plan.rebuild import with_children

_NUMBERS = 1 << 15  # operators per node


@dataclass(frozen=True)
class SentStream:
    """A stream that a node has a queue for."""

    plan: PlanNode

    @property
    def is_stream(self) -> bool:
        return self.plan.is_stream


@dataclass
class NodePart:
    """What one node does.

    `made`: streams that it computes for others. `received`: stream -> the upstream node on the route. `readers`: stream
    -> the nodes that read it from here. A stream that is received and read on is relayed.
    """

    node: str
    app: App
    made: dict[str, SentStream] = field(default_factory=dict)
    received: dict[str, str] = field(default_factory=dict)
    readers: dict[str, list[str]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)  # received streams that its own app reads
    plans: dict[str, SentStream] = field(default_factory=dict)  # of all streams that it has a queue for

    @property
    def read_by(self) -> set[str]:
        """The nodes that read anything from this node."""
        return {name for names in self.readers.values() for name in names}


def cut(app: App, nodes: NodesFile, planned: PlacedPlan, placed: Placement) -> dict[str, NodePart]:
    """Returns the part of each node. With a plan that was placed beside a running one, the parts have what is new, and
    the names of sent streams end with the plan's suffix."""
    return _Cutter(app, nodes, planned, placed).parts()


def empty_parts(app: App, nodes: NodesFile) -> dict[str, NodePart]:
    """Returns the part of each node, with nothing to do yet."""
    return {
        n.name: NodePart(
            n.name,
            App((), (), app.directory, first_number=(i + 1) * _NUMBERS, sharing=app.sharing, functions=app.functions),
        )
        for i, n in enumerate(nodes.nodes)
    }


class _Cutter:
    def __init__(self, app: App, nodes: NodesFile, planned: PlacedPlan, placed: Placement) -> None:
        self._app, self._placed, problem = app, placed, planned.problem
        self._suffix = planned.suffix
        self._names = {node: name for name, node in planned.plan_nodes.items()}
        self._network = Network(problem)
        self._speed = {n.name: n.speed for n in nodes.nodes}
        self._born = {s.name: s.born for s in problem.streams if s.born}
        self._wanted = {o.name: o.sink for o in problem.outputs}
        finish = finish_us(problem, placed.tasks, arrival_us(problem, placed.nodes, placed.routes), placed.nodes)
        self._finish = {name.removesuffix(" >"): round(us) for name, us in finish.items()}
        self._parts = empty_parts(app, nodes)
        self._queries: dict[str, list[Query]] = {n.name: [] for n in nodes.nodes}
        self._asked: set[tuple[str, str]] = set()
        self._tables = tuple(s.name for s in app.streams if s.table)
        self._waiting: list[tuple[str, PlanNode, str, Query]] = []  # stream, its plan, who needs it, for which query

    def parts(self) -> dict[str, NodePart]:
        for query in self._app.queries:
            at = self._wanted[query.name]
            here = self._host(query.root, at) == at
            local = self._local(query.root, at, query)
            cost = self._cost(query, at) if here else None
            self._queries[at].append(replace(query, root=local, cost_us=cost))
        while self._waiting:
            self._provide(*self._waiting.pop(0))
        self._set_levels()
        for name, part in self._parts.items():
            part.app = replace(part.app, queries=tuple(self._queries[name]), streams=tuple(self._streams(part, name)))
        return self._parts

    def _set_levels(self) -> None:
        """Sets the level of each query: how many nodes its input has passed before."""
        made = {query.name: query for queries in self._queries.values() for query in queries if query.sent}
        found: dict[str, int] = {}

        def level(query: Query, at: str) -> int:
            received = [s for s in query.streams if s in self._parts[at].received and s in made]
            return max((1 + of_stream(s) for s in received), default=0)

        def of_stream(name: str) -> int:
            if name not in found:
                found[name] = level(made[name], next(n for n, part in self._parts.items() if name in part.made))
            return found[name]

        for at, queries in self._queries.items():
            self._queries[at] = [replace(query, level=level(query, at)) for query in queries]

    def _host(self, node: PlanNode, at: str) -> str:
        """Returns where a node of the plan is computed, if `at` needs it. A clock is made where its stream is read."""
        if node in self._names:
            return self._placed.nodes[self._names[node]]
        if not isinstance(node, Scan):
            return self._host(node.children[0], at)
        born = self._born[node.stream]
        return at if at in born else self._route(node.stream, born, at)[0][0]

    def _local(self, node: PlanNode, at: str, query: Query) -> PlanNode:
        """Returns the plan as it runs at a node, for a query."""
        if self._host(node, at) == at:
            return node if isinstance(node, Scan) else with_children(node, lambda child: self._local(child, at, query))
        if isinstance(node, Scan):
            return self._linked(node.stream + self._suffix, node, at, query)
        name = self._names[node]
        if is_periodic(node):
            name = periodic_name(name, node, query, self._app.queries, self._tables)
        return self._linked(name, node, at, query)

    def _linked(self, name: str, node: PlanNode, at: str, query: Query) -> PlanNode:
        """Returns what stands at a node for a part of the plan that is made elsewhere."""
        if (name, at) not in self._asked:
            self._asked.add((name, at))
            self._waiting.append((name, node, at, query))
        return Scan(name, node.schema) if node.is_stream else Received(name, node.schema)

    def _clocked(self, local: PlanNode, node: PlanNode, at: str, query: Query) -> PlanNode:
        """Adds clocks to what cannot end by itself, of the streams of the query that it does not read."""
        others = other_streams(node, query, self._tables) if is_periodic(local) else ()
        clocks = []
        for scan in others:
            plan = clock_plan(scan)
            here = self._host(scan, at) == at
            clocks.append(plan if here else self._linked(clock_name(scan.stream) + self._suffix, plan, at, query))
        return Clocked(local, tuple(clocks)) if clocks else local

    def _provide(self, name: str, node: PlanNode, at: str, query: Query) -> None:
        """Makes the stream where it is placed, and sends it along its route to `at`."""
        host = self._host(node, at)
        self._parts[at].used.add(name)
        for before, after in self._way(name, host, at):
            self._parts[after].received[name] = before
            self._parts[after].plans[name] = self._parts[before].plans[name] = SentStream(node)
            readers = self._parts[before].readers.setdefault(name, [])
            if after not in readers:
                readers.append(after)
        if name in self._parts[host].made:
            return
        self._parts[host].made[name] = SentStream(node)
        deadline = self._finish.get(self._names.get(node, name.removesuffix(self._suffix)))
        costs = [
            c
            for q in self._app.queries
            if q.root == node and self._wanted[q.name] != host and (c := self._cost(q, host)) is not None
        ]
        link = Connector(LINK, (("queue", name),))
        cost = sum(costs) if costs else None
        local = self._clocked(self._local(node, host, query), node, host, query)
        drop_us = self._worthless_us(node, host)
        self._queries[host].append(
            Query(name, local, deadline or drop_us, drop_us is not None, cost, into=link, drop_us=drop_us)
        )

    def _worthless_us(self, node: PlanNode, host: str) -> int | None:
        """Returns after how long a tuple is worthless to all queries that need it: it cannot be in time where their
        results are wanted. None: one of them is not FIRM."""
        users = [q for q in self._app.queries if node in q.root.walk()]
        left = [q.deadline_us - self._network.delay_us(host, self._wanted[q.name]) for q in users if q.deadline_us]
        return round(max(left)) if users and all(q.firm for q in users) else None

    def _way(self, name: str, source: str, target: str) -> Route:
        return self._route(name, (source,), target)

    def _route(self, name: str, sources: tuple[str, ...], target: str) -> Route:
        """Returns the links that the placement chose for the stream, as far as they lead to the target; else the
        shortest route.
        """
        chosen, source = self._placed.routes, name.removesuffix(self._suffix)
        before = {b: a for a, b in chosen.get(f"{name} >", chosen.get(source, ()))}
        way: list[tuple[str, str]] = []
        at = target
        while at not in sources:
            if at not in before or len(way) > len(before):
                return min((self._network.path(s, target) for s in sources), key=len)
            way.append((before[at], at))
            at = before[at]
        return tuple(reversed(way))

    def _cost(self, query: Query, at: str) -> int | None:
        return None if query.cost_us is None else round(query.cost_us / self._speed[at])

    def _streams(self, part: NodePart, at: str) -> Iterator[SourceStream]:
        used = {s for q in self._queries[at] for s in q.streams}
        for stream in self._app.streams:
            if stream.name in used and stream.name not in part.received:
                yield stream
        for name in part.received:
            if name in used:
                sent = part.plans[name]
                yield SourceStream(
                    name, sent.plan.schema, Connector(LINK, (("queue", name), ("relation", not sent.is_stream)))
                )


def parts_below(parts: Mapping[str, NodePart]) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Returns, for each query of the whole, what is sent for it on its way: the node, and the names of all that the
    node makes for it from the same streams."""
    made = {q.name: (node, q) for node, part in parts.items() for q in part.app.queries if q.sent}
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for query in (q for part in parts.values() for q in part.app.queries if not q.sent):
        below, waiting = dict[str, None](), list(query.streams)
        while waiting:
            name = waiting.pop()
            if name in made and name not in below:
                below[name] = None
                waiting += made[name][1].streams
        alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for name in below:
            alike.setdefault((made[name][0], made[name][1].streams), []).append(name)
        found[query.name] = [(node, tuple(names)) for (node, _), names in alike.items()]
    return found


def parts_used(parts: Mapping[str, NodePart]) -> list[str]:
    """Returns the nodes that have work: queries, or streams to relay."""
    return [name for name, part in parts.items() if part.app.queries or part.received]
