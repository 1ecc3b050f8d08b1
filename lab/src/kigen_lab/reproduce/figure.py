"""What a family of figures registers: how one is made, drawn and shown. `registry` gathers the families.

Invariant: what `make` returns is plain JSON and holds the figure's `name`; `draw` and `tables` need nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Told = Callable[[str, int, int], None]  # (what, done, of)


@dataclass(frozen=True)
class Request:
    """What the user asked for; `seeds` and `workers` only where a figure has them."""

    name: str
    quick: bool
    told: Told
    seeds: int | None = None
    workers: int | None = None


@dataclass(frozen=True)
class Table:
    """A table for the terminal."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _no_tables(result: dict[str, Any]) -> list[Table]:
    return []


@dataclass(frozen=True)
class Figure:
    """`make` gives the JSON, `draw` the picture of it at a path, `tables` what the command prints; `about` is one line
    for the list."""

    make: Callable[[Request], dict[str, Any]]
    draw: Callable[[dict[str, Any], Path], None]
    about: str
    tables: Callable[[dict[str, Any]], list[Table]] = _no_tables
