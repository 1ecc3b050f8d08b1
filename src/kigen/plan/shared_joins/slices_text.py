"""Describes the slices of shared joins for `explain`: as lines below the join, and as JSON."""

from __future__ import annotations

from typing import Any

from kigen.plan.durations import size_text
from kigen.plan.logical import App, PlanNode
from kigen.plan.shared_joins.share_nodes import SharedJoin
from kigen.plan.shared_joins.slices import JoinSlices, join_slices, why_together
from kigen.plan.tasks import Task

_SECOND_US = 1_000_000
_NAMES_SHOWN = 6


def slice_lines(task: Task, app: App) -> dict[PlanNode, list[str]]:
    """Returns one line per slice for each shared join of the task: its span, its queries, its group and weight; and
    whether the slices run separately."""
    why = why_together(task, app)
    how = (
        "one after the other under --policy mqt, mandf, admandf or salvage"
        if why is None
        else f"together under every policy: {why}"
    )
    return {
        slices.join: [*(_line(slices, i) for i in range(len(slices.queries))), f"slices run {how}"]
        for slices in join_slices(task)
    }


def slices_json(task: Task, app: App) -> list[tuple[SharedJoin, dict[str, Any]]]:
    """Returns the slices as JSON. `together` says why all slices run together under every policy; null if they need
    not."""
    return [(slices.join, {**_json(slices), "together": why_together(task, app)}) for slices in join_slices(task)]


def _line(slices: JoinSlices, i: int) -> str:
    ends = (0, *slices.join.reaches)
    names = slices.served_by(i)
    shown = (
        ", ".join(names)
        if len(names) <= _NAMES_SHOWN
        else f"{', '.join(names[: _NAMES_SHOWN - 1])} and {len(names) - _NAMES_SHOWN + 1} more"
    )
    span = f"{size_text(slices.by_time, ends[i])} to {size_text(slices.by_time, ends[i + 1])}"
    unit = "s" if slices.by_time else "row"
    return (
        f"slice {i + 1}: {span}, for {shown}; group {_group(slices, i) + 1}, weight {_weight(slices, i):.4g} a {unit}"
    )


def _json(slices: JoinSlices) -> dict[str, Any]:
    ends = (0, *slices.join.reaches)
    return {
        "windows": "range" if slices.by_time else "rows",
        "slices": [
            {"from": ends[i], "to": ends[i + 1], "queries": list(slices.served_by(i)), "group": _group(slices, i) + 1}
            | {"weight": _weight(slices, i)}
            for i in range(len(slices.queries))
        ],
        "groups": [
            {"slices": list(range(first, last + 1)), "weight": _weight(slices, first - 1)}
            for first, last in slices.hull.groups
        ],
        "order": slices.hull.order,
        "unit": {"slices": "microseconds", "weight": "a second"}
        if slices.by_time
        else {"slices": "rows", "weight": "a row"},
    }


def _group(slices: JoinSlices, i: int) -> int:
    return next(g for g, (first, last) in enumerate(slices.hull.groups) if first <= i + 1 <= last)


def _weight(slices: JoinSlices, i: int) -> float:
    """Returns how many windows are finished per second, or per row, of window processed."""
    return slices.hull.weights[i] * (_SECOND_US if slices.by_time else 1)
