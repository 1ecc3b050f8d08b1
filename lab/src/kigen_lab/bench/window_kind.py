"""Defines the kinds of windows that a benchmark can use, as an option of the command."""

from __future__ import annotations

from enum import StrEnum


class WindowKind(StrEnum):
    both = "both"
    range = "range"
    rows = "rows"
