"""Identifies the app of a checkpoint: its fingerprint has a digest of each clause of every stream and query as planned.

Invariant: two apps have the same fingerprint exactly if one can continue from the other's state. The plan matters;
comments and layout of the app file do not. `kigen.engine.changes` decides what a different fingerprint means.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

import duckdb

from kigen.engine.checkpoint.formats import FORMAT
from kigen.plan.description import description
from kigen.plan.logical import App, Query, SourceStream

_OF_CHANGES = ("copy_of", "since_us")  # a declared stream has neither


class CheckpointMismatch(ValueError):
    """The checkpoint belongs to another app or version. `kigen` exits with code 2."""


def fingerprint(
    app: App, lifetime: str, draining: bool, output: str | None, version: str, sliced: list[str]
) -> dict[str, Any]:
    """Returns the fingerprint as JSON. `sliced` lists the tasks whose slices run separately: their state differs."""
    endless = () if draining else ("synthetic", "kafka")
    live = {stream.name for stream in app.streams if stream.source.name.lower() in endless}
    return {
        "format": FORMAT,
        "kigen": version,
        "duckdb": duckdb.__version__,
        "lifetime": lifetime,
        "output": output,
        "sharing": app.sharing,
        "sliced": ", ".join(sliced) or None,
        "streams": {s.name: {**_parts(s), "live": _digest(s.name in live)} for s in app.streams},
        "queries": {q.name: _parts(q) for q in app.queries},
        "reads": {q.name: list(q.streams) for q in app.queries},
    }


def _parts(declared: SourceStream | Query) -> dict[str, str]:
    """Returns a digest of each clause, which is enough to report which one changed.

    A clause that older versions did not have is left out if the app does not use it.
    """
    later = {
        name
        for name in (
            "ahead_us",
            "idle_us",
            "table",
            "key",
            "refresh_us",
            "error_into",
            "late_into",
            "also",
            "drop_us",
            *_OF_CHANGES,
        )
        if getattr(declared, name, None) in (None, (), False)
    }
    left_out = {"name", "added_by", *later}
    return {f.name: _digest(getattr(declared, f.name)) for f in fields(declared) if f.name not in left_out}


def _digest(value: Any) -> str:
    return hashlib.sha256(description(value).encode()).hexdigest()[:16]


def declaration_digest(mine: dict[str, Any]) -> str:
    """Returns a digest of what the app of a fingerprint declares, whatever the options of the run."""
    of_run = ("live", "also")
    parts = {
        kind: {name: {k: v for k, v in found.items() if k not in of_run} for name, found in mine[kind].items()}
        for kind in ("streams", "queries")
    }
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


CLAUSES = {
    "schema": "its columns",
    "source": "FROM",
    "timestamp": "TIMESTAMP BY",
    "lateness_us": "LATENESS",
    "idle_us": "IDLE",
    "ahead_us": "AHEAD",
    "on_error_skip": "ON ERROR",
    "error_into": "ON ERROR INTO",
    "late_into": "LATE INTO",
    "shed": "SHED",
    "buffer": "BUFFER",
    "live": "--drain",
    "root": "the query itself",
    "deadline_us": "DEADLINE",
    "firm": "FIRM",
    "drop_us": "FIRM",
    "cost_us": "COST",
    "into": "INTO",
    "also": "what is kept beside INTO (lines or changes)",
}


OPTIONS = (
    ("lifetime", "--lifetime"),
    ("output", "--output"),
    ("sharing", "sharing of joins"),
    ("sliced", "--policy, tasks that it runs slice by slice (mqt, mandf, admandf and salvage do, the others do not)"),
)
VERSIONS = (("kigen", "Kigen"), ("duckdb", "DuckDB"))


def changes_between(theirs: dict[str, Any], mine: dict[str, Any]) -> list[str]:
    """Lists all that differs, in words."""
    changes = [
        f"{what}: {theirs.get(key)} there, {mine[key]} here"
        for key, what in (*VERSIONS, *OPTIONS)
        if theirs.get(key) != mine[key]
    ]
    for key, what in (("streams", "stream"), ("queries", "query")):
        before, after = theirs[key], mine[key]
        changes += [f"{what} '{name}' was added" for name in after if name not in before]
        changes += [f"{what} '{name}' was removed" for name in before if name not in after]
        for name in after:
            differing = altered_clauses(before[name], after[name]) if name in before else []
            if differing:
                changes.append(f"{what} '{name}' was altered: {', '.join(differing)}")
    return changes


def altered_clauses(before: dict[str, str], after: dict[str, str], apart: tuple[str, ...] = ()) -> list[str]:
    """Names the clauses that differ, except those in `apart`."""
    return [
        CLAUSES.get(part, part)
        for part in dict.fromkeys((*after, *before))
        if part not in apart and before.get(part) != after.get(part)
    ]


def refusal(checkpoint: object, changes: list[str]) -> CheckpointMismatch:
    """Returns the error for a checkpoint that this app or these options cannot continue."""
    listed = "\n".join(f"  - {change}" for change in changes)
    return CheckpointMismatch(
        f"the checkpoint {checkpoint} was made by another app or version:\n{listed}\n"
        "Undo the change to continue from it, or give another --checkpoint directory (or delete this one) to start "
        "from the beginning."
    )
