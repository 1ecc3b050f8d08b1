"""Defines what a family of figures registers: how a figure is made, drawn and shown.

Invariant: what `make` returns is plain JSON and holds the figure's `name`; `draw` and `tables` need nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OnProgress = Callable[[str, int, int], None]  # takes (panel, done, of)


@dataclass(frozen=True)
class Request:
    """What the user asked for. `seeds` and `workers` matter only to figures that have them."""

    name: str
    quick: bool
    on_progress: OnProgress
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
    """A figure. `make` returns its JSON, `draw` writes the picture, `tables` is what the command prints, `about` is a
    line for the list.
    """

    make: Callable[[Request], dict[str, Any]]
    draw: Callable[[dict[str, Any], Path], None]
    about: str
    tables: Callable[[dict[str, Any]], list[Table]] = _no_tables
