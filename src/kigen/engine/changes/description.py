"""Describes a planned change: a table for people, JSON for programs.

| query | change | why | starts |
|---|---|---|---|
"""

from __future__ import annotations

from typing import Any

from kigen.engine.changes.difference import Difference
from kigen.engine.changes.planned import PlannedChange
from kigen.plan.changes.copies import iso_text


def change_json(planned: PlannedChange) -> dict[str, Any]:
    """Returns the change as JSON."""
    found, app = planned.found, planned.app
    task_of = {query.name: task.name for task in app.tasks for query in task.queries}
    queries = []
    for name in dict.fromkeys((*found.kept, *found.added, *found.dropped)):
        action = _action(found, name)
        entry: dict[str, Any] = {"query": name, "action": action}
        if name in found.why:
            entry["why"] = found.why[name]
        if name in task_of:
            entry["task"] = task_of[name]
        if action in ("add", "change"):
            entry["starts"] = "now" if planned.replay_us is None else iso_text(planned.replay_us)
        queries.append(entry)
    return {
        "change": planned.record.change,
        "changed": not found.is_empty,
        "queries": queries,
        "set_aside": planned.set_aside,
        "notes": notes(planned),
    }


def _action(found: Difference, name: str) -> str:
    if name in found.kept:
        return "keep"
    if name in found.added:
        return "change" if name in found.dropped else "add"
    return "drop"


def notes(planned: PlannedChange) -> list[str]:
    """Says what becomes of outputs and of windows, where a user might expect something else."""
    found = [f"{path} is set aside as {target}" for path, target in planned.set_aside.items()]
    for name in planned.follows:
        into = next(q.into for q in planned.app.queries if q.name == name)
        assert into is not None
        found.append(f"rows of the new '{name}' follow those of the old one in {into.name}: both are kept there")
    if planned.replay_us is None and planned.found.added:
        found.append("added queries see only tuples after the change; --replay-from TIME gives them older ones")
    return found


def change_text(planned: PlannedChange) -> str:
    """Returns the change as a table with notes below it."""
    told = change_json(planned)
    if not told["changed"]:
        return "nothing changes: the app is the one of the checkpoint\n"
    return _table(told["queries"], told["notes"])


def difference_text(found: Difference) -> str:
    """Returns what changes as a table, where the change of each query is made elsewhere."""
    queries = []
    for name in dict.fromkeys((*found.kept, *found.added, *found.dropped)):
        entry = {"query": name, "action": _action(found, name)}
        if name in found.why:
            entry["why"] = found.why[name]
        if name in found.added:
            entry["starts"] = "now"
        queries.append(entry)
    return _table(queries, ["added queries see only tuples after the change"] if found.added else [])


def _table(queries: list[dict[str, Any]], notes: list[str]) -> str:
    words = {
        "keep": "keeps its state and its lines",
        "drop": "ends; its state goes, its output stays",
        "add": "starts",
        "change": "is dropped and added",
    }
    rows: list[tuple[str, ...]] = [("query", "change", "", "starts from")]
    for one in queries:
        rows.append((one["query"], words[one["action"]], one.get("why", ""), one.get("starts", "")))
    shown = [i for i in range(4) if any(row[i] for row in rows)]
    rows = [tuple(row[i] for i in shown) for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(shown))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*lines, *(f"note: {note}" for note in notes)]) + "\n"
