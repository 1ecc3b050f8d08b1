"""Writes times and window sizes in the shortest exact form."""

from __future__ import annotations

_UNITS = ((3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1_000, "ms"))


def duration_text(us: int) -> str:
    """Writes microseconds in the largest unit that is exact: 90 s, 2 min, 1500 us."""
    for size, unit in _UNITS:
        if us and us % size == 0:
            return f"{us // size} {unit}"
    return f"{us} us"


def size_text(by_time: bool, size: int) -> str:
    """Writes the size of a window: a time, or a number of rows."""
    return duration_text(size) if by_time and size else str(size)
