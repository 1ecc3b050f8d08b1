"""A placement as JSON and back: all nodes of a run must work by the same one, so it is decided once and written down.

Invariant: `from_json(to_json(p)) == p`. Another format, or a placement of another app or nodes file, is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

from kigen.placement.from_plan import PlacedPlan
from kigen.placement.nodes_file.entries import NodesFile
from kigen.placement.result import LinkLoad, NodeLoad, PlacedTask, Placement
from kigen.plan.logical import App

FORMAT = 1


class PlacementMismatch(ValueError):
    """A stored placement that is not of this app and nodes file."""


def fingerprint(app: App, planned: PlacedPlan, nodes: NodesFile, allocate: str) -> str:
    """Of what a placement depends on, and the app itself: queues and states of another one are worth nothing. Addresses
    may change."""
    text = repr((app.streams, app.queries, planned.problem, allocate, [(n.name, n.speed) for n in nodes.nodes]))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def to_json(placed: Placement, of: str) -> dict[str, Any]:
    value = dataclasses.asdict(placed)
    value["sub_deadlines_us"] = [[*key, us] for key, us in placed.sub_deadlines_us.items()]
    return {"format": FORMAT, "of": of, "placement": value}


def from_json(stored: Any, of: str, file: str) -> Placement:
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise PlacementMismatch(
            f"{file}: a placement of format {FORMAT} is required: delete the file, and a new one is made"
        )
    if stored["of"] != of:
        raise PlacementMismatch(
            f"{file} is a placement of another app, or of other nodes, costs or rates: undo the change to go on from "
            "there, or give "
            "another --state directory (or delete this one) to start from the beginning"
        )
    value = dict(stored["placement"])
    value["sub_deadlines_us"] = {(output, operator): us for output, operator, us in value["sub_deadlines_us"]}
    value["routes"] = {stream: tuple((a, b) for a, b in links) for stream, links in value["routes"].items()}
    value["tasks"] = tuple(PlacedTask(**_tuples(task, "operators", "inputs", "outputs")) for task in value["tasks"])
    value["node_loads"] = {node: NodeLoad(**load) for node, load in value["node_loads"].items()}
    value["link_loads"] = tuple(LinkLoad(**_tuples(load, "streams")) for load in value["link_loads"])
    return Placement(**{**value, "notes": tuple(value["notes"])})


def _tuples(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: tuple(v) if key in names else v for key, v in value.items()}
