"""Plans the change of an app on nodes: what stays where it runs, what goes, and where what is new is placed.

A query is kept exactly if its own clauses and those of its streams are the same, as in `kigen run`
(`kigen.engine.changes.difference`). Invariant: an operator that runs keeps its node, its plan and its streams. Only
added queries are placed, on what room the kept ones leave. Nothing is changed here: the caller stores the result, and
each node adopts its part at its next start (`kigen.engine.nodes.adoption`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

from kigen.engine.changes.difference import Difference, difference
from kigen.engine.checkpoint.fingerprint import fingerprint as clauses_of
from kigen.engine.nodes.standby_rules import check_pairing
from kigen.placement.changes.layers import PlacedLayer, suffix_of
from kigen.placement.changes.placed_app import PlacedApp
from kigen.placement.cutting import NodePart, cut, empty_parts
from kigen.placement.from_plan import Layer, PlacedPlan, from_plan, sink_of
from kigen.placement.nodes_file.entries import NodesFile, NodesFileError
from kigen.placement.problem import Problem
from kigen.placement.profile import Profile
from kigen.placement.result import Placement
from kigen.placement.stored import PlacementMismatch, fingerprint, of_another_app
from kigen.plan.changes.digests import digests_of
from kigen.plan.description import description
from kigen.plan.logical import App, PlanNode

Solve = Callable[[Problem], Placement]


@dataclass(frozen=True)
class NodesApp:
    """An app and a nodes file, as the user gives them now."""

    app: App
    nodes: NodesFile
    profile: Profile | None
    allocate: str

    @property
    def of(self) -> str:
        return fingerprint(self.app, from_plan(self.app, self.nodes, self.profile), self.nodes, self.allocate)

    @property
    def clauses(self) -> dict[str, Any]:
        found = clauses_of(self.app, "dt", False, None, version("kigen"), [])
        return {key: found[key] for key in ("streams", "queries", "reads")}

    @property
    def site(self) -> str:
        """Returns a digest of what no change of the app may alter: nodes, links, --allocate."""
        nodes = [(node.name, node.speed) for node in self.nodes.nodes]
        text = description((nodes, self.nodes.links, self.allocate))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def born(self) -> dict[str, tuple[str, ...]]:
        first = (self.nodes.nodes[0].name,)
        return {s.name: e.born if (e := self.nodes.streams.get(s.name)) else first for s in self.app.streams}

    @property
    def empty(self) -> dict[str, NodePart]:
        return empty_parts(self.app, self.nodes)


def first_placed(given: NodesApp, planned: PlacedPlan, placed: Placement) -> PlacedApp:
    """Returns the placed app of a new state directory, or of one whose placement an older version has stored."""
    layer = _layer(given, given.app, planned, placed, 0)
    of = given.of
    return PlacedApp(of, of, 0, given.clauses, given.site, given.born, placed, (layer,))


def changed(before: PlacedApp, given: NodesApp, solve: Solve, file: str) -> tuple[PlacedApp, Difference]:
    """Returns the placed app after the change to the given one, and what differs. Raises PlacementMismatch and
    NodesFileError for what cannot change."""
    clauses, app = given.clauses, given.app
    if before.site != given.site or before.clauses == clauses:
        raise of_another_app(file)
    if not app.queries:
        raise PlacementMismatch(f"{file}: an app needs at least one query")
    found = difference(before.clauses, clauses)
    _require_same_places(before, given, found)
    number = before.change + 1
    layers = [layer.without(found.dropped) for layer in before.layers]
    layers = [layer for layer in layers if layer.results]
    placed = before.placed
    if found.added:
        new = replace(app, queries=tuple(q for q in app.queries if q.name in found.added))
        running = tuple(_running(layer, app, file) for layer in layers)
        planned = from_plan(app, given.nodes, given.profile, (*running, Layer(new.queries, suffix_of(number))))
        placed = solve(planned.problem)
        layers.append(_layer(given, new, planned, placed, number))
    after = PlacedApp(given.of, before.began_as, number, clauses, given.site, given.born, placed, tuple(layers))
    parts = after.parts(given.empty)
    _require_same_standbys(before.parts(given.empty), parts, given.nodes)
    check_pairing(parts, given.nodes)
    return after, found


def _layer(given: NodesApp, app: App, planned: PlacedPlan, placed: Placement, number: int) -> PlacedLayer:
    digests = digests_of(planned.plan_nodes.values())
    hosts = {digests[node]: placed.nodes[name] for name, node in planned.plan_nodes.items()}
    return PlacedLayer(number, cut(app, given.nodes, planned, placed), hosts)


def _running(layer: PlacedLayer, app: App, file: str) -> Layer:
    """Returns the queries that a layer still has, with the nodes of their operators."""
    queries = tuple(q for q in app.queries if q.name in layer.results)
    below: dict[PlanNode, str] = digests_of(node for query in queries for node in query.root.walk())
    hosts = {node: layer.hosts[digest] for node, digest in below.items() if digest in layer.hosts}
    unknown = [node for q in queries for node in q.root.walk() if node.children and node not in hosts]
    if unknown:
        raise PlacementMismatch(
            f"{file}: this version of Kigen plans {queries[0].name} in another way than the one that placed it: use "
            "that version, or give another --state directory to start from the beginning"
        )
    return Layer(queries, layer.suffix, hosts)


def _require_same_places(before: PlacedApp, given: NodesApp, found: Difference) -> None:
    """Raises NodesFileError if the nodes file moves what a kept query begins or ends with, or the file that a changed
    query has written."""
    wrong = []
    results = {query: node for layer in before.layers for query, node in layer.results.items()}
    for query, node in results.items():
        there = sink_of(given.nodes, query)
        if query in given.clauses["queries"] and there != node:
            what = "keeps its state" if query in found.kept else "has its output"
            wrong.append(
                f"[results] {query}: it {what} on {node}, so it cannot move to {there} while the app changes: write "
                f'{query} = "{node}", or give the query another name'
            )
    read = {stream for query in found.kept for stream in given.clauses["reads"][query]}
    for stream in sorted(read):
        if stream in before.born and before.born[stream] != given.born[stream]:
            born = ", ".join(before.born[stream])
            wrong.append(
                f"[streams.{stream}] born: queries that go on read it from {born}: write that again, or give another "
                "--state directory to start from the beginning"
            )
    if wrong:
        raise NodesFileError(given.nodes.file, tuple(wrong))


def _require_same_standbys(before: dict[str, NodePart], after: dict[str, NodePart], nodes: NodesFile) -> None:
    """Raises NodesFileError if a node with a standby would have to change: its replicas would meet as two apps."""
    wrong = [
        f"[nodes.{name}] standby: the change alters what {name} does, and a node with a standby cannot change its app: "
        'undo the change, pin the operators of added queries to other nodes ([operators."QUERY.OPERATOR"] nodes), or '
        "give another --state directory to start from the beginning"
        for name, part in after.items()
        if nodes.entry(name).standby is not None and part != before[name]
    ]
    if wrong:
        raise NodesFileError(nodes.file, tuple(wrong))
