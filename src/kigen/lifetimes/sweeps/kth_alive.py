"""Finds the k-th least live value after any number of changes, for many questions at once: a wavelet matrix over a
sequence of births and deaths.

The values are ranks. One pass per bit of a rank, from the highest: it counts the live values whose bit is 0, and each
question goes on with those or with the others. So a question never looks at the values themselves, and nothing is
sorted. Cost: O((events + questions) log values) in vector passes.
"""

from __future__ import annotations

import numpy as np

from kigen.lifetimes.blocks import Ints


def kth_alive(rank: Ints, weight: Ints, after: Ints, k: Ints, since: Ints | None = None) -> Ints:
    """Returns, for each question, the rank of the k-th (from 0) live value after the first `after` events, or -1 if
    fewer are alive. `weight` is how many copies an event adds (or takes away). With `since`, a question sees only the
    events from there on."""
    if not len(after):
        return after.copy()
    low = np.zeros(len(after), dtype=np.int64) if since is None else since.copy()
    high, rest = after.copy(), k.copy()
    alive = np.concatenate([[0], np.cumsum(weight)])
    enough = rest < alive[high] - alive[low]
    found = np.zeros(len(after), dtype=np.int64)
    for level in range(int(rank.max()).bit_length() - 1 if len(rank) else -1, -1, -1):
        zero = (rank >> level) & 1 == 0
        zeros = np.zeros(len(rank) + 1, dtype=np.int64)
        np.cumsum(zero, out=zeros[1:])
        alive = np.zeros(len(rank) + 1, dtype=np.int64)
        np.cumsum(np.where(zero, weight, 0), out=alive[1:])
        below = alive[high] - alive[low]
        right = rest >= below
        rest -= np.where(right, below, 0)
        found = (found << 1) | right
        total = zeros[-1]
        low = np.where(right, total + low - zeros[low], zeros[low])
        high = np.where(right, total + high - zeros[high], zeros[high])
        rank, weight = (np.concatenate([part[zero], part[~zero]]) for part in (rank, weight))
    return np.where(enough, found, -1)
