"""Layers of a placed app: what was placed at the start, and what each change of the app has added to it.

The parts of a layer are stored as they run. A change takes queries out of them and adds a layer of its own; no plan of
a query that stays is ever made again. Invariant: layers share no operator and no stream between nodes, since added
queries must not see tuples from before their start: the streams of a change end with its number (`hot.window-2`). So
what leaves a layer leaves nothing behind that another one needs. Cost: linear in the parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kigen.placement.cutting import NodePart, SentStream
from kigen.plan.changes import stored_plans
from kigen.plan.logical import App, SourceStream

Parts = dict[str, NodePart]


@dataclass(frozen=True)
class PlacedLayer:
    """Queries that were placed together. `hosts`: digest of an operator's sub-plan -> its node."""

    change: int
    parts: Parts
    hosts: dict[str, str]

    @property
    def results(self) -> dict[str, str]:
        """Returns query -> the node that gives its results."""
        return {q.name: name for name, part in self.parts.items() for q in part.app.queries if not q.sent}

    @property
    def suffix(self) -> str:
        return suffix_of(self.change)

    def without(self, dropped: Collection[str]) -> PlacedLayer:
        return replace(self, parts=without_queries(self.parts, dropped))


def suffix_of(change: int) -> str:
    """Returns the end of the names of what a change has added."""
    return f"-{change}" if change else ""


def without_queries(parts: Mapping[str, NodePart], dropped: Collection[str]) -> Parts:
    """Returns the parts without these queries, and without the streams that were sent for them only."""
    kept: dict[str, set[str]] = {name: set() for name in parts}  # names of queries, sent ones too
    used: dict[str, set[str]] = {name: set() for name in parts}
    links: set[tuple[str, str, str]] = set()  # from, to, stream
    waiting = [
        (name, q.name) for name, part in parts.items() for q in part.app.queries if not q.sent and q.name not in dropped
    ]
    while waiting:
        at, query = waiting.pop()
        if query in kept[at]:
            continue
        kept[at].add(query)
        reads = next(q.streams for q in parts[at].app.queries if q.name == query)
        for stream in (s for s in reads if s in parts[at].received):
            used[at].add(stream)
            node = at
            while stream in parts[node].received:
                before = parts[node].received[stream]
                links.add((before, node, stream))
                node = before
            waiting.append((node, stream))  # the query that sends a stream has its name
    return {name: _part(part, kept[name], used[name], links) for name, part in parts.items()}


def _part(part: NodePart, kept: set[str], used: set[str], links: set[tuple[str, str, str]]) -> NodePart:
    me = part.node
    queries = tuple(q for q in part.app.queries if q.name in kept)
    read = {stream for query in queries for stream in query.streams}
    streams = tuple(s for s in part.app.streams if s.name in read)
    made = {name: sent for name, sent in part.made.items() if name in kept}
    received = {s: before for s, before in part.received.items() if (before, me, s) in links}
    readers = {s: [n for n in names if (me, n, s) in links] for s, names in part.readers.items()}
    plans = {s: sent for s, sent in part.plans.items() if s in made or s in received}
    return NodePart(
        me,
        replace(part.app, queries=queries, streams=streams),
        made,
        received,
        {stream: names for stream, names in readers.items() if names},
        used,
        plans,
    )


def merged(layers: Iterable[PlacedLayer], empty: Mapping[str, NodePart]) -> Parts:
    """Returns the part of each node, of all layers. `empty`: parts without any query."""
    found = {
        name: replace(part, made={}, received={}, readers={}, used=set(), plans={}) for name, part in empty.items()
    }
    for layer in layers:
        for name, part in layer.parts.items():
            mine = found[name]
            streams: dict[str, SourceStream] = {s.name: s for s in (*mine.app.streams, *part.app.streams)}
            app = replace(mine.app, streams=tuple(streams.values()), queries=(*mine.app.queries, *part.app.queries))
            found[name] = NodePart(
                name,
                app,
                mine.made | part.made,
                mine.received | part.received,
                mine.readers | part.readers,
                mine.used | part.used,
                mine.plans | part.plans,
            )
    return found


def layer_to_json(layer: PlacedLayer) -> dict[str, Any]:
    parts = {
        name: {
            "queries": part.app.queries,
            "streams": part.app.streams,
            "plans": {stream: sent.plan for stream, sent in part.plans.items()},
            "made": tuple(part.made),
            "received": part.received,
            "readers": part.readers,
            "used": frozenset(part.used),
        }
        for name, part in layer.parts.items()
    }
    return {"change": layer.change, "hosts": layer.hosts, "parts": stored_plans.to_json(parts)}


def layer_from_json(stored: dict[str, Any], empty: Mapping[str, NodePart]) -> PlacedLayer:
    """Reads a layer. What is not of its plans, such as the app's directory, is that of `empty`. Raises
    StoredPlanError."""
    parts: Parts = {}
    for name, found in stored_plans.from_json(stored["parts"]).items():
        plans = {stream: SentStream(plan) for stream, plan in found["plans"].items()}
        app: App = replace(empty[name].app, queries=found["queries"], streams=found["streams"])
        parts[name] = NodePart(
            name,
            app,
            {stream: plans[stream] for stream in found["made"]},
            dict(found["received"]),
            {stream: list(names) for stream, names in found["readers"].items()},
            set(found["used"]),
            plans,
        )
    return PlacedLayer(stored["change"], parts, dict(stored["hosts"]))
