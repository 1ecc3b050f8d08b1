"""Which work fits before its deadlines, the most worthwhile first: the linear program of least loss, solved greedily.

Rows are in order of deadlines; `room[p]` is the work that can be done up to row p's deadline; columns are groups, from
the steepest slope on. A choice of work is feasible if, for every p, what is taken from rows 0..p fits room[p]. Feasible
choices form a polymatroid, so taking column after column as much as still fits is optimal, whichever rows are preferred
within a column; here the first ones are, as others may get another chance.

Invariant: with `fits` the sums over rows and columns taken, fits[p] <= room[p] for all p. Cost: a few passes over rows
x columns.
"""

from __future__ import annotations

import numpy as np

from kigen.schedule.policy_interface import Floats


def take_steepest(work: Floats, room: Floats) -> Floats:
    """How much of each row's work in each column is taken; the last of a column in part, where it does not fit
    whole."""
    taken = np.zeros_like(work)
    used = np.zeros(len(room))
    for group in range(work.shape[1]):
        offered = np.cumsum(work[:, group])
        free = np.minimum.accumulate((room - used)[::-1])[::-1]  # taking more at p uses room at all rows after it, too
        upto = offered + np.minimum.accumulate(np.minimum(free - offered, 0.0))
        taken[:, group] = np.diff(upto, prepend=0.0)
        used += upto
    return np.maximum(taken, 0.0)


def whole_parts(work: Floats, taken: Floats, budget: float) -> list[tuple[int, int]]:
    """(row, last column to run) in order, up to `budget` work: shares that were taken add up until a row's whole part
    is paid for.

    A row runs a column only if it has no work left in those before.
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
