"""Counts fields of an input that the stream does not declare: they are ignored, and the report names them.

Invariant: a count is the number of rows, good and bad, in which the field has a value. Cost: none for inputs without
unknown fields. At most `MOST` names are kept, so that an input that invents names cannot fill a checkpoint; rows of all
others are counted under `OTHERS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Unknown = Mapping[str, int]  # field -> rows that have it
MOST = 20
OTHERS = "(others)"
NONE: Unknown = {}


def merged(parts: Iterable[Unknown]) -> Unknown:
    """Returns the sums of counts, with few enough names."""
    found: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            kept = name if name in found or len(found) < MOST else OTHERS
            found[kept] = found.get(kept, 0) + count
    return found


def unknown_keys(objects: Iterable[Mapping[str, object]], declared: Iterable[str]) -> Unknown:
    """Counts the keys of objects that are not declared and have a value."""
    known = frozenset(declared)
    found: dict[str, int] = {}
    for one in objects:
        for key, value in one.items():
            if key not in known and value is not None:
                found[key] = found.get(key, 0) + 1
    return merged([found])
