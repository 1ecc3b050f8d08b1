"""Load shedder: bounds the tuples per second of a stream, and sheds the least valuable ones beyond (SHED ABOVE n PER
SECOND BY expr).

The rate is kept per second of arrival. Blocks arrive while their second is still running, and what comes later in it is
not known. Therefore, at any moment, the shedder has kept at most the share of n that the elapsed part of the second
allows (rounded up), and of each block it keeps the most valuable tuples that fit. So no second ever keeps more than n,
and early tuples cannot use up what later ones need. Vectorised; cost: one sort of the block. The state is one count.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kigen.schedule.policy_interface import Ints

SECOND_US = 1_000_000
Mask = npt.NDArray[np.bool_]


class LoadShedder:
    """Shedder of one stream."""

    def __init__(self, above_per_second: float) -> None:
        if above_per_second < 0:
            raise ValueError(
                f"the rate must be 0 or more, got {above_per_second}: write SHED ABOVE 800 PER SECOND, for example"
            )
        self._limit = above_per_second
        self._second = -(2**62)
        self._kept = 0  # tuples kept in that second
        self.offered = self.shed = 0

    def keep(self, arrivals_us: Ints, values: npt.NDArray[np.float64] | None = None, now_us: int | None = None) -> Mask:
        """Returns which tuples of a block stay.

        Arrivals must be in order. Without values the earliest tuples are the most valuable; NaN (and NULL) is the least
        valuable. `now_us`: all tuples up to this time have been offered with this block; the default is its last
        arrival.
        """
        size = len(arrivals_us)
        kept = np.zeros(size, bool)
        if not size:
            return kept
        seconds = arrivals_us // SECOND_US
        ranks = self._ranks(seconds, values)
        first, counts = np.unique(seconds, return_counts=True)
        room = self._rooms(first, int(arrivals_us[-1]) if now_us is None else now_us)
        kept[:] = ranks < np.repeat(room, counts)
        left = np.add.reduceat(kept, np.concatenate(([0], np.cumsum(counts)[:-1])))
        before = self._kept if first[-1] == self._second else 0
        self._second, self._kept = int(first[-1]), before + int(left[-1])
        self.offered += size
        self.shed += size - int(kept.sum())
        return kept

    @staticmethod
    def _ranks(seconds: Ints, values: npt.NDArray[np.float64] | None) -> Ints:
        """Returns 0 for the most valuable tuple of its second in this block, 1 for the next, and so on."""
        size = len(seconds)
        starts = np.searchsorted(seconds, seconds)
        if values is None:
            return np.arange(size) - starts
        worth = np.where(np.isnan(values), -np.inf, values)
        order = np.lexsort((np.arange(size), -worth, seconds))
        ranks = np.empty(size, np.int64)
        ranks[order] = np.arange(size)
        return ranks - starts

    def _rooms(self, seconds: Ints, now_us: int) -> Ints:
        """Returns how many tuples each of these seconds may still keep."""
        elapsed = np.clip((now_us - seconds * SECOND_US + 1) / SECOND_US, 0.0, 1.0)
        room = np.minimum(np.ceil(self._limit * elapsed), math.floor(self._limit)).astype(np.int64)
        room[seconds == self._second] -= self._kept
        return np.maximum(room, 0)
