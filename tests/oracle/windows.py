"""Computes the lifetimes that windows give, by the obvious loop. `None` as a death means never."""

from __future__ import annotations

from collections.abc import Sequence

from oracle.shapes import Row, Window

Tuple = tuple[int, Row]  # (timestamp, columns)
Interval = tuple[Row, int, int | None]


def ceil_to(t: int, step: int) -> int:
    return -(-t // step) * step


def lifetimes(window: Window, tuples: Sequence[Tuple]) -> list[Interval]:
    """Returns each tuple's [from, to), without ghosts (from >= to). `tuples` are in the order of the stream."""
    arrivals: dict[Row, list[int]] = {}  # of each partition; without PARTITION BY there is one
    for t, row in tuples:
        arrivals.setdefault(tuple(row[c] for c in window.partition), []).append(t)
    seen: dict[Row, int] = {}
    found: list[Interval] = []
    for t, row in tuples:
        born, dies = t, None
        key = tuple(row[c] for c in window.partition)
        place = seen[key] = seen.get(key, -1) + 1
        if window.kind == "RANGE":
            dies = t + window.size
            if window.slide is not None:
                born, dies = ceil_to(t, window.slide), ceil_to(dies, window.slide)
        elif window.kind == "NOW":
            dies = t + 1
        elif window.kind in ("ROWS", "PARTITION") and place + window.size < len(arrivals[key]):
            dies = arrivals[key][place + window.size]
        elif window.kind == "SESSION":
            times = arrivals[key][place:]
            ends = [a for a, b in zip(times, [*times[1:], None], strict=True) if b is None or b - a >= window.size]
            dies = ends[0] + window.size
        elif window.kind == "UNTIL":
            dies = row[window.until]
        if dies is None or born < dies:
            found.append((row, born, dies))
    return found


def tie_order(tuples: Sequence[Tuple]) -> list[Tuple]:
    """Returns the order in which a query's stream is read by name: time, then columns from left to right, NULLs
    first."""
    return sorted(
        tuples, key=lambda item: (item[0], [(value is not None, 0 if value is None else value) for value in item[1]])
    )
