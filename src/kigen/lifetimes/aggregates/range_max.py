"""Finds the greatest value alive in every run: intervals of runs, each with a value, are painted over a table of powers
of two and pushed down.

MIN and MAX thus need no order of deaths and no heap. Interval [i, j) is covered by two blocks of length 2**k, the table
keeps the greatest value per block, and each level passes its values to the two halves below. Cost: O((runs + intervals)
log runs) in vector passes.
"""

from __future__ import annotations

import numpy as np

from kigen.lifetimes.blocks import Ints

NOTHING = -1  # rank of a position that no interval covers


def greatest(begin: Ints, stop: Ints, rank: Ints, size: int) -> Ints:
    """Returns, for each position below `size`, the greatest `rank` (>= 0) of the intervals [begin, stop) over it, or
    NOTHING."""
    length = stop - begin
    keep = length > 0
    begin, stop, rank, length = begin[keep], stop[keep], rank[keep], length[keep]
    if not len(begin):
        return np.full(size, NOTHING, dtype=np.int64)
    level = np.frexp(length.astype(np.float64))[1].astype(np.int64) - 1  # floor(log2)
    top = int(level.max())
    above: Ints = np.full(size, NOTHING, dtype=np.int64)
    for k in range(top, -1, -1):
        here = above
        mine = level == k
        if bool(mine.any()):
            ranks = rank[mine]
            np.maximum.at(here, begin[mine], ranks)
            np.maximum.at(here, stop[mine] - (1 << k), ranks)
        if k:
            half = 1 << (k - 1)
            above = here.copy()
            above[half:] = np.maximum(above[half:], here[:-half])
    return above
