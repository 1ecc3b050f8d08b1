"""Throughput in steady state, from what was done by when: the start is left out, and, where enough follows, the growing
of batches and the filling of the window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_AT_LEAST = 3  # batches that must remain


@dataclass(frozen=True)
class Mark:
    """A batch has ended: at `at_s` on some clock, `tuples` had been worked on since the beginning."""

    at_s: float
    tuples: int


def steady_rate(marks: Sequence[Mark], window: int) -> float:
    """Tuples a second in steady state. The first batch never counts: it pays for the start; nor do those before batches
    have grown to their size, nor what little is left for a last one."""
    if len(marks) < 2:
        raise ValueError(
            f"steady state needs at least 2 batches, found {len(marks)}: give more tuples, or smaller batches"
        )
    sizes = [after.tuples - before.tuples for before, after in pairwise(marks)]
    half = max(sizes) / 2
    if len(marks) - 2 >= _AT_LEAST and sizes[-1] < half:
        marks, sizes = marks[:-1], sizes[:-1]
    first = 1 if len(marks) - 2 >= _AT_LEAST else 0
    while len(marks) - 1 - (first + 1) >= _AT_LEAST and (marks[first].tuples < window or sizes[first] <= half):
        first += 1
    begin, end = marks[first], marks[-1]
    return (end.tuples - begin.tuples) / max(end.at_s - begin.at_s, 1e-9)
