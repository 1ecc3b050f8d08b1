"""Finds what a changed app keeps, drops and adds, by the fingerprints of both. Pure.

Invariant: a query is kept exactly if its own clauses, and those of all streams that it reads, are the same. A query
that reads another one contains its plan, so it changes with it. A changed query is dropped and added. Options of the
run are not part of the app: they must be the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kigen.engine.checkpoint.fingerprint import CLAUSES, OPTIONS, altered_clauses

_OPTION_OF_STREAM, _OPTION_OF_QUERY = "live", "also"


@dataclass(frozen=True)
class Difference:
    """Names of queries, in the order of the app that declares them. A changed query is in `dropped` and in `added`."""

    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    added: tuple[str, ...]
    why: dict[str, str] = field(default_factory=dict)  # changed query -> what changed
    new_streams: frozenset[str] = frozenset()  # streams that did not exist, or whose clauses have changed
    moved_streams: frozenset[str] = frozenset()  # those of them whose FROM or columns have changed

    @property
    def is_empty(self) -> bool:
        return not self.dropped and not self.added


def difference(theirs: dict[str, Any], mine: dict[str, Any]) -> Difference:
    """Compares the app of a checkpoint with the app of a run."""
    altered = {
        name: found
        for name, after in mine["streams"].items()
        if name in theirs["streams"]
        and (found := altered_clauses(theirs["streams"][name], after, (_OPTION_OF_STREAM,)))
    }
    added_streams = set(mine["streams"]) - set(theirs["streams"])
    moved = {n for n, found in altered.items() if {CLAUSES["source"], CLAUSES["schema"]} & set(found)}
    kept, why = [], dict[str, str]()
    for name, after in mine["queries"].items():
        if name not in theirs["queries"]:
            continue
        own = altered_clauses(theirs["queries"][name], after, (_OPTION_OF_QUERY,))
        streams = [s for s in mine["reads"][name] if s in altered or s in added_streams]
        reasons = [*own, *(f"stream '{s}' ({', '.join(altered.get(s, ['it is new']))})" for s in streams)]
        if reasons:
            why[name] = ", ".join(reasons)
        else:
            kept.append(name)
    dropped = tuple(name for name in theirs["queries"] if name not in kept)
    added = tuple(name for name in mine["queries"] if name not in kept)
    return Difference(
        tuple(kept), dropped, added, why, frozenset(altered) | added_streams, frozenset(moved) | added_streams
    )


def option_changes(theirs: dict[str, Any], mine: dict[str, Any], found: Difference) -> list[str]:
    """Lists options of the run that differ from those that the kept queries run with."""
    wrong = [
        f"{what}: {theirs.get(key)} there, {mine[key]} here" for key, what in OPTIONS if theirs.get(key) != mine[key]
    ]
    for name, parts in mine["streams"].items():
        before = theirs["streams"].get(name)
        if before is not None and name not in found.new_streams and before.get("live") != parts.get("live"):
            wrong.append(f"stream '{name}' was altered: {CLAUSES['live']}")
    for name in found.kept:
        if theirs["queries"][name].get(_OPTION_OF_QUERY) != mine["queries"][name].get(_OPTION_OF_QUERY):
            wrong.append(f"query '{name}' was altered: {CLAUSES[_OPTION_OF_QUERY]}")
    return wrong
