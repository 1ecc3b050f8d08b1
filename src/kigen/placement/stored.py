"""Stores a placement as JSON. All nodes of a run must use the same placement, so it is decided once and written down.

Invariant: `from_json(to_json(p)) == p`. A file of another format, app or nodes file is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from typing import Any

from kigen.placement.from_plan import PlacedPlan
from kigen.placement.nodes_file.entries import NodesFile
from kigen.placement.result import LinkLoad, NodeLoad, PlacedTask, Placement
from kigen.plan.description import description
from kigen.plan.logical import App

FORMAT = 2  # with the parts of the nodes (kigen.placement.changes.placed_app); 1: the placement only
_READABLE = (1, 2)
_CLASS_PREFIX = re.compile(r"\bProblem(?=(?:Node|Link|Stream|Operator|Output)\()")


class PlacementMismatch(ValueError):
    """The stored placement belongs to another app or nodes file."""


def fingerprint(app: App, planned: PlacedPlan, nodes: NodesFile, allocate: str) -> str:
    """Returns a digest of the app and of everything that the placement depends on.

    Queues and states of another app are useless, so the app is part of it. Addresses are not: they may change. The
    classes of a problem appear under the names and with the fields that they had when the format was fixed, so that
    stored placements stay valid.
    """
    speeds = [(n.name, n.speed) for n in nodes.nodes]
    text = _CLASS_PREFIX.sub("", description((app.streams, app.queries, planned.problem, allocate, speeds)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def to_json(placed: Placement, of: str) -> dict[str, Any]:
    """Returns the placement as JSON, together with the fingerprint that it belongs to."""
    value = dataclasses.asdict(placed)
    value["sub_deadlines_us"] = [[*key, us] for key, us in placed.sub_deadlines_us.items()]
    return {"format": FORMAT, "of": of, "placement": value}


def from_json(stored: Any, of: str, file: str) -> Placement:
    """Restores a placement. Raises PlacementMismatch if it belongs to something else."""
    placed = placement_of(stored, file)
    if stored["of"] != of:
        raise of_another_app(file)
    return placed


def of_another_app(file: str) -> PlacementMismatch:
    """Returns the error for a placement that this app, or these nodes, cannot continue."""
    return PlacementMismatch(
        f"{file} is a placement of another app, or of other nodes, costs or rates: undo the change to continue, or "
        "give another --state directory (or delete this one) to start from the beginning"
    )


def placement_of(stored: Any, file: str) -> Placement:
    """Restores a placement, whatever it belongs to. Raises PlacementMismatch."""
    if not isinstance(stored, dict) or stored.get("format") not in _READABLE:
        raise PlacementMismatch(
            f"{file}: a placement of format {FORMAT} is required: delete the file, and Kigen makes a new one"
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
