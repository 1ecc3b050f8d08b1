"""Costs and rates that a trial run measured: the report that `kigen run --report` wrote.

Uses the cost per tuple of each task (`costs.tasks`), the tuples into and out of each query, and the length of the run.
Missing values stay unknown; `from_plan` then uses guesses and warns about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class ProfileError(ValueError):
    """The profile is not a report of `kigen run`."""


@dataclass(frozen=True)
class Profile:
    """Measured costs, selectivities and rates."""

    task_us: Mapping[str, float] = field(default_factory=dict)  # task -> cost per tuple
    selectivity: Mapping[str, float] = field(default_factory=dict)  # query -> lines out per tuple in
    rate: Mapping[str, float] = field(default_factory=dict)  # query -> tuples in a second, of all its streams


def read_profile(report: Any, file: str = "report") -> Profile:
    if not isinstance(report, dict) or not isinstance(report.get("queries"), dict):
        raise ProfileError(f"{file}: a report of 'kigen run --report' is required: it has \"queries\"")
    costs = report.get("costs") or {}
    tasks = costs.get("tasks") or {}
    wall = float(report.get("wall_s") or 0.0)
    queries: dict[str, dict[str, Any]] = report["queries"]
    fed = {name: q for name, q in queries.items() if q.get("in")}
    return Profile(
        {name: float(task["tuple_us"]) for name, task in tasks.items()},
        {name: float(q.get("out", 0)) / float(q["in"]) for name, q in fed.items()},
        {name: float(q["in"]) / wall for name, q in fed.items()} if wall > 0 else {},
    )
