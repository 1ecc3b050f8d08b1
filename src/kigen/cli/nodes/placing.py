"""Reads the files that place an app on nodes, and decides the placement once.

Invariant: the placement is kept in the state directory, so all nodes, and all restarts, use the same one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kigen.cli.loading import load
from kigen.cli.serving import kept_changes_s
from kigen.connectors.options import duration_us
from kigen.durable import replace
from kigen.engine import RunOptions, defaults
from kigen.engine.changes.difference import Difference
from kigen.engine.errors import AppNotFound
from kigen.engine.nodes.adoption import Version
from kigen.engine.nodes.app_change import NodesApp, changed, first_placed
from kigen.engine.nodes.batch_advice import with_batches
from kigen.engine.nodes.standby_rules import check_pairing
from kigen.placement.changes.placed_app import PlacedApp
from kigen.placement.cutting import NodePart
from kigen.placement.from_plan import PlacedPlan, from_plan
from kigen.placement.nodes_file.entries import NodesFile
from kigen.placement.nodes_file.parser import parse_nodes
from kigen.placement.profile import Profile, read_profile
from kigen.placement.result import Placement
from kigen.placement.solver.solve import Limits, solve
from kigen.placement.stored import PlacementMismatch, from_json, of_another_app
from kigen.plan.logical import App

PLACEMENT = "placement.json"  # in the state directory
MayChange = Callable[[NodesFile], None]  # called before a change is made; raises what forbids it


@dataclass(frozen=True)
class NodesArguments:
    """Arguments that `kigen up` and `kigen node` share, as the user wrote them."""

    app_file: Path
    nodes_file: Path
    allocate: str
    time_limit_s: float
    profile: Path | None
    state: Path | None
    output: Path | None
    policy: str
    duration: str | None
    memory: str = defaults.MEMORY
    settings: tuple[str, ...] = ()  # values of parameters, as in --set
    no_change: bool = False  # of 'kigen up': refuses a changed app
    serve: str | None = None
    keep_results: str | None = None

    def __post_init__(self) -> None:
        """Raises ArgumentError for what every node would refuse, before a node is started."""
        RunOptions(
            policy=self.policy, duration_s=self.duration_s, memory=self.memory, keep_changes_s=self.keep_changes_s
        )

    @property
    def state_dir(self) -> Path:
        return state_of(self.nodes_file, self.state)

    @property
    def keep_changes_s(self) -> float | None:
        return kept_changes_s(self.serve, self.keep_results)

    @property
    def duration_s(self) -> float | None:
        return None if self.duration is None else duration_us("kigen", "--duration", self.duration) / 1e6


def state_of(nodes_file: Path, given: Path | None) -> Path:
    """Returns the directory where nodes keep their queues, checkpoints and the token."""
    return (given or nodes_file.with_suffix(".state")).absolute()


def load_nodes(path: Path) -> NodesFile:
    if not path.is_file():
        found = "a directory" if path.is_dir() else "nothing there"
        raise AppNotFound(f"{path}: a nodes file is required, found {found}")
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
    """Places the app's plan on the nodes. Writes warnings to standard error."""
    planned = from_plan(app, nodes, profile)
    for warning in planned.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    return planned, solve(planned.problem, time.monotonic, allocate, Limits(time_limit_s))


@dataclass(frozen=True)
class PlacedNodes:
    """An app on its nodes, as its state directory has it."""

    app: App
    nodes: NodesFile
    placed: Placement
    parts: dict[str, NodePart]
    version: Version
    found: Difference | None = None  # what has changed just now


def placed_parts(arguments: NodesArguments) -> tuple[NodesFile, Placement, dict[str, NodePart]]:
    """Returns the nodes, the placement and each node's part of the app."""
    found = placed_nodes(arguments)
    return found.nodes, found.placed, found.parts


def placed_nodes(arguments: NodesArguments, may_change: MayChange | None = None) -> PlacedNodes:
    """Returns the app on its nodes.

    Uses the stored placement if there is one. Otherwise places the app and stores the result. If the app has changed
    since then, places what is new and stores that: `may_change` is asked before. None: a changed app is refused.
    """
    app = load(arguments.app_file, arguments.output, arguments.settings)
    nodes, notes = with_batches(load_nodes(arguments.nodes_file))
    for note in notes:
        sys.stderr.write(note + "\n")
    given = NodesApp(app, nodes, load_profile(arguments.profile), arguments.allocate)
    of, file, found = given.of, arguments.state_dir / PLACEMENT, None
    limits = Limits(arguments.time_limit_s)
    if not file.exists():
        planned, placed = place(app, nodes, given.profile, arguments.allocate, arguments.time_limit_s)
        now = first_placed(given, planned, placed)
        _store(file, now)
    else:
        stored = _json(file)
        kept = PlacedApp.from_json(stored, given.empty, str(file))
        if kept is None:  # an older version wrote it, without parts
            placed = from_json(stored, of, str(file))
            now = first_placed(given, from_plan(app, nodes, given.profile), placed)
            _store(file, now)
        elif kept.of == of:
            now = kept
        elif may_change is None:
            raise _not_here(str(file)) if kept.clauses != given.clauses else of_another_app(str(file))
        else:
            now, found = changed(
                kept, given, lambda problem: solve(problem, time.monotonic, arguments.allocate, limits), str(file)
            )
            may_change(nodes)
            _store(file, now)
    parts = now.parts(given.empty)
    check_pairing(parts, nodes)
    return PlacedNodes(app, nodes, now.placed, parts, Version(now.began_as, now.change), found)


def _store(file: Path, placed: PlacedApp) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    replace(file, json.dumps(placed.to_json(), indent=1).encode(), sync=True)


def _not_here(file: str) -> PlacementMismatch:
    return PlacementMismatch(
        f"{file} is a placement of the app before its change: end all nodes and run 'kigen up' with the changed app, "
        "undo the change to continue, or give another --state directory to start from the beginning"
    )


def _json(file: Path) -> Any:
    """Returns the content of a file, or None if it is damaged."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return None


def describe(part: NodePart) -> list[str]:
    """Describes what a node does, in a few lines."""
    results = [q.name for q in part.app.queries if not q.sent]
    lines = [f"node {part.node}: " + (f"gives {', '.join(results)}" if results else "gives nothing itself")]
    for name, upstream in part.received.items():
        lines.append(f"  takes {name} from {upstream}" + ("" if name in part.used else " and hands it on"))
    lines += [f"  sends {name} to {', '.join(readers)}" for name, readers in part.readers.items()]
    return lines
