"""Computes throughput in steady state from the ends of batches.

The start does not count. If enough batches follow, neither does the time in which batches grow and the window fills.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_AT_LEAST = 3  # batches that must remain


@dataclass(frozen=True)
class BatchEnd:
    """End of a batch: at `at_s` on some clock, `tuples` had been processed since the beginning."""

    at_s: float
    tuples: int


def steady_rate(ends: Sequence[BatchEnd], window: int) -> float:
    """Returns tuples per second in steady state.

    The first batch never counts, because it pays for the start. Batches that have not grown to their size do not count
    either, nor does a last batch of less than half that size.
    """
    if len(ends) < 2:
        raise ValueError(
            f"steady state needs at least 2 batches, found {len(ends)}: use more tuples or smaller batches"
        )
    sizes = [after.tuples - before.tuples for before, after in pairwise(ends)]
    half = max(sizes) / 2
    if len(ends) - 2 >= _AT_LEAST and sizes[-1] < half:
        ends, sizes = ends[:-1], sizes[:-1]
    first = 1 if len(ends) - 2 >= _AT_LEAST else 0
    while len(ends) - 1 - (first + 1) >= _AT_LEAST and (ends[first].tuples < window or sizes[first] <= half):
        first += 1
    begin, end = ends[first], ends[-1]
    return (end.tuples - begin.tuples) / max(end.at_s - begin.at_s, 1e-9)
