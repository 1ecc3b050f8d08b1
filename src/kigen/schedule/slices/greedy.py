"""Selects the most valuable work that fits before its deadlines: the linear program of least loss, solved greedily.

Rows are in the order of deadlines. `room[p]` is the work that can be done up to the deadline of row p. Columns are
groups, in the order of falling slope. A selection is feasible if, for every p, the work taken from rows 0..p fits into
room[p]. Feasible selections form a polymatroid, so it is optimal to take column after column as much as still fits,
whichever rows are preferred within a column. The first rows are preferred here, since others may get another chance.

Invariant: with `fits` the sums over rows and columns taken, fits[p] <= room[p] for all p. Cost: a few passes over rows
x columns.
"""

from __future__ import annotations

import numpy as np

from kigen.schedule.policy_interface import Floats


def take_steepest(work: Floats, room: Floats) -> Floats:
    """Returns how much of each row's work is taken, per column. The last row of a column may be taken in part."""
    taken = np.zeros_like(work)
    used = np.zeros(len(room))
    for group in range(work.shape[1]):
        offered = np.cumsum(work[:, group])
        free = np.minimum.accumulate((room - used)[::-1])[
            ::-1
        ]  # work taken at p also uses the room of all rows after it
        upto = offered + np.minimum.accumulate(np.minimum(free - offered, 0.0))
        taken[:, group] = np.diff(upto, prepend=0.0)
        used += upto
    return np.maximum(taken, 0.0)


def whole_parts(work: Floats, taken: Floats, budget: float) -> list[tuple[int, int]]:
    """Returns (row, last column to run) in order, up to `budget` work.

    Shares add up until they pay for a row's whole part. A row runs a column only if it has no work left in the columns
    before it.
    """
    parts: list[tuple[int, int]] = []
    rows = np.flatnonzero(taken.sum(axis=1) > 0)
    credit = [0.0] * work.shape[1]
    for row, offered, shares in zip(rows.tolist(), work[rows].tolist(), taken[rows].tolist(), strict=True):
        reached, open_ = -1, True
        for group, share in enumerate(shares):
            credit[group] += share
            if not offered[group]:
                continue
            open_ = open_ and credit[group] >= offered[group] * (1 - 1e-9)
            if open_:
                credit[group] -= offered[group]
                budget -= offered[group]
                reached = group
        if reached >= 0:
            parts.append((row, reached))
        if budget <= 0:
            break
    return parts
