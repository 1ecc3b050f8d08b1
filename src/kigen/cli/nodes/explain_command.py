"""`kigen explain APP --nodes FILE`: shows which operator runs on which node, and by when."""

from __future__ import annotations

from pathlib import Path

from kigen.cli.loading import load
from kigen.cli.nodes.placing import load_nodes, load_profile, place
from kigen.placement.explain import placement_to_text


def explain_nodes(
    app_file: Path,
    nodes_file: Path,
    profile: Path | None,
    allocate: str,
    time_limit_s: float,
    format: str,
    picture: Path | None,
    settings: tuple[str, ...] = (),
) -> str:
    app = load(app_file, settings=settings)
    planned, placed = place(app, load_nodes(nodes_file), load_profile(profile), allocate, time_limit_s)
    labels = {name: node.label() for name, node in planned.plan_nodes.items()}
    if picture is not None:
        from kigen.cli.pictures.placement import draw_placement

        draw_placement(planned.problem, placed, labels, picture)
    return placement_to_text(planned.problem, placed, format, labels)
