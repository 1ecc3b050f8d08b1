"""Identifies the app of a checkpoint: `app.json` lists every stream and query as planned.

A changed app is refused, with a list of the changes. Invariant: two apps have the same fingerprint exactly if one can
continue from the other's state. The plan matters; comments and layout of the app file do not.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import duckdb

from kigen.durable import DamagedFile, replace
from kigen.engine.checkpoint.formats import FORMAT, migrated
from kigen.plan.description import description
from kigen.plan.logical import App, Query, SourceStream

_FILE = "app.json"


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
    }


def check_or_write(checkpoint: Path, mine: dict[str, Any], sync: bool = True) -> None:
    """Compares the fingerprint with that of the checkpoint, or writes it into a new checkpoint.

    Raises CheckpointMismatch if the checkpoint belongs to another app, DamagedFile if its description is torn.
    """
    path = checkpoint / _FILE
    if not path.exists():
        if (checkpoint / "spark").exists():
            raise CheckpointMismatch(f"{checkpoint} holds a Spark checkpoint without {_FILE}: use an empty directory")
        replace(path, json.dumps(mine, indent=1).encode(), sync)
        return
    theirs = migrated(_read(path), mine)
    changes = _changes(theirs, mine)
    if changes:
        listed = "\n".join(f"  - {change}" for change in changes)
        raise CheckpointMismatch(
            f"the checkpoint {checkpoint} was made by another app or version:\n{listed}\n"
            "Undo the change to continue from it, or give another --checkpoint directory (or delete this one) to start "
            "from the beginning."
        )
    if theirs["found_format"] != FORMAT:
        replace(path, json.dumps(mine, indent=1).encode(), sync)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
        if not isinstance(found, dict) or not all(isinstance(found.get(key), dict) for key in ("streams", "queries")):
            raise ValueError("it does not describe an app")
    except ValueError as error:
        torn = f"it is torn ({path.stat().st_size} bytes: {error}), so the app of this checkpoint is unknown"
        todo = "Restore it from a copy of the checkpoint, or start from the beginning with a new --checkpoint directory"
        raise DamagedFile(str(path), torn, todo) from error
    return found


def _parts(declared: SourceStream | Query) -> dict[str, str]:
    """Returns a digest of each clause, which is enough to report which one changed.

    A clause that older versions did not have is left out if the app does not use it.
    """
    later = {
        name
        for name in ("ahead_us", "idle_us", "table", "key", "refresh_us", "error_into", "late_into", "also")
        if getattr(declared, name, None) in (None, (), False)
    }
    return {f.name: _digest(getattr(declared, f.name)) for f in fields(declared) if f.name not in {"name", *later}}


def _digest(value: Any) -> str:
    return hashlib.sha256(description(value).encode()).hexdigest()[:16]


_CLAUSES = {
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
    "cost_us": "COST",
    "into": "INTO",
    "also": "what is kept beside INTO (lines or changes)",
}


def _changes(theirs: dict[str, Any], mine: dict[str, Any]) -> list[str]:
    changes = [
        f"{what}: {theirs.get(key)} there, {mine[key]} here"
        for key, what in (
            ("kigen", "Kigen"),
            ("duckdb", "DuckDB"),
            ("lifetime", "--lifetime"),
            ("output", "--output"),
            ("sharing", "sharing of joins"),
            ("sliced", "--policy, tasks that it runs slice by slice (mqt, mandf and admandf do, the others do not)"),
        )
        if theirs.get(key) != mine[key]
    ]
    for key, what in (("streams", "stream"), ("queries", "query")):
        before, after = theirs[key], mine[key]
        changes += [f"{what} '{name}' was added" for name in after if name not in before]
        changes += [f"{what} '{name}' was removed" for name in before if name not in after]
        for name in after:
            differing = [
                _CLAUSES.get(p, p) for p in after[name] if name in before and before[name].get(p) != after[name][p]
            ]
            if differing:
                changes.append(f"{what} '{name}' was altered: {', '.join(differing)}")
    return changes
