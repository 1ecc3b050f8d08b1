"""Counts rows of files and batches whose header lacks a declared column: the column is NULL, and the run says so.

Invariant: a count is the number of rows, good and bad, of files and batches without the column; the place is the first
of them. JSON objects are not counted: a key that is missing is one way to write NULL. Cost: none if nothing is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Missing = Mapping[str, tuple[int, str]]  # column -> rows, and the first file or batch without it
NONE: Missing = {}


def missing_in(columns: Sequence[str], rows: int, place: str) -> Missing:
    """Returns the columns that `place` does not have, for so many of its rows."""
    return dict.fromkeys(columns, (rows, place)) if rows else NONE


def merged_missing(parts: Iterable[Missing | Mapping[str, Sequence[Any]]]) -> dict[str, tuple[int, str]]:
    """Returns the sums of counts, each with its first place."""
    found: dict[str, tuple[int, str]] = {}
    for part in parts:
        for column, (count, place) in part.items():
            before, first = found.get(column, (0, place))
            found[column] = (before + count, first)
    return found


def missing_text(stream: str, column: str, place: str) -> str:
    """Returns the warning for a column that is missing for the first time."""
    return (
        f"warning: stream '{stream}': column '{column}' is missing in {place}: it is NULL in such rows. If its name is "
        "wrong, correct it in CREATE STREAM"
    )
