"""Finds the k-th least live value after any number of changes, for many questions at once: a wavelet matrix over a
sequence of births and deaths.

The values are ranks. One pass per bit of a rank, from the highest: it counts the live values whose bit is 0, and each
question goes on with those or with the others. So a question never looks at the values themselves, and nothing is
sorted. Cost: O((events + questions) log values) in vector passes.
"""

from __future__ import annotations

import numpy as np

from kigen.lifetimes.blocks import Ints

_BITS = 32
_ONE, _HALF = np.int64(1 << _BITS), np.int64(1 << (_BITS - 1))


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
    # Both counts lie in one integer: values whose bit is 0 in the high bits, live ones of them in the low bits.
    both = np.zeros(len(rank) + 1, dtype=np.int64)
    for level in range(int(rank.max()).bit_length() - 1 if len(rank) else -1, -1, -1):
        zero = rank & (1 << level) == 0
        np.cumsum(np.where(zero, weight + _ONE, 0), out=both[1:])
        before, until = both[low], both[high]
        zeros_before, zeros_until = (before + _HALF) >> _BITS, (until + _HALF) >> _BITS
        below = until - before - ((zeros_until - zeros_before) << _BITS)
        right = rest >= below
        rest -= np.where(right, below, 0)
        found = (found << 1) | right
        total = (both[-1] + _HALF) >> _BITS
        low = np.where(right, total + low - zeros_before, zeros_before)
        high = np.where(right, total + high - zeros_until, zeros_until)
        if level:
            order = np.concatenate([np.flatnonzero(zero), np.flatnonzero(~zero)])
            rank, weight = rank[order], weight[order]
    return np.where(enough, found, -1)
