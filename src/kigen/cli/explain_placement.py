"""`kigen explain APP --nodes FILE`: the plan over the nodes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from kigen.cli.loading import load
from kigen.engine.errors import AppNotFound
from kigen.placement.explain import placement_to_text
from kigen.placement.from_plan import PlacedPlan, from_plan
from kigen.placement.nodes_file.file import NodesFile, parse_nodes
from kigen.placement.profile import Profile, read_profile
from kigen.placement.result import Placement
from kigen.placement.solver.solve import Limits, solve
from kigen.plan.logical import App


def load_nodes(path: Path) -> NodesFile:
    if not path.is_file():
        raise AppNotFound(
            f"{path}: a nodes file is required, found {'a directory' if path.is_dir() else 'nothing there'}"
        )
    return parse_nodes(path.read_text(encoding="utf-8"), str(path))


def load_profile(path: Path | None) -> Profile | None:
    if path is None:
        return None
    if not path.is_file():
        raise AppNotFound(f"{path}: a report of 'kigen run --report' is required, found nothing there")
    try:
        return read_profile(json.loads(path.read_text(encoding="utf-8")), str(path))
    except json.JSONDecodeError as error:
        raise AppNotFound(f"{path}: a report of 'kigen run --report' is required; this is no JSON: {error}") from error


def place(
    app: App, nodes: NodesFile, profile: Profile | None, allocate: str, time_limit_s: float
) -> tuple[PlacedPlan, Placement]:
    """The app's plan placed on the nodes; warnings go to standard error."""
    planned = from_plan(app, nodes, profile)
    for warning in planned.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    return planned, solve(planned.problem, time.monotonic, allocate, Limits(time_limit_s))


def explain_nodes(
    app_file: Path,
    nodes_file: Path,
    profile: Path | None,
    allocate: str,
    time_limit_s: float,
    format: str,
    picture: Path | None,
) -> str:
    app = load(app_file)
    planned, placed = place(app, load_nodes(nodes_file), load_profile(profile), allocate, time_limit_s)
    labels = {name: node.label() for name, node in planned.plan_nodes.items()}
    if picture is not None:
        from kigen.cli.placement_picture import draw_placement

        draw_placement(planned.problem, placed, labels, picture)
    return placement_to_text(planned.problem, placed, format, labels)
