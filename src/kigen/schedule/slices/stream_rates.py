"""Arrival rates of streams: measured once per period and smoothed. The peak is remembered for a while.

Invariant: tuples that wait at the start do not count as arrived. Cost: constant.
"""

from __future__ import annotations

import math

import numpy as np

PERIOD_US = 500_000.0
SMOOTHING_US = 5e6
MEMORY_US = 1e9


class StreamRates:
    """Tuples per microsecond, per stream."""

    def __init__(self, streams: int, period_us: float = PERIOD_US) -> None:
        self.period_us = period_us
        self.now = np.zeros(streams)
        self.peak = np.zeros(streams)
        self._counts = np.zeros(streams)
        self._began_us: float | None = None
        self._since_us = 0.0

    def arrived(self, stream: int, count: int) -> None:
        self._counts[stream] += count

    def measure(self, now_us: float) -> bool:
        """Returns whether a period is over and the rates are new."""
        if self._began_us is None:
            self._began_us = self._since_us = now_us
            self._counts[:] = 0
        elapsed_us = now_us - self._since_us
        if elapsed_us < self.period_us:
            return False
        seen_us = now_us - self._began_us  # at first, the mean since the start
        share = 1.0 if seen_us <= elapsed_us else -math.expm1(-elapsed_us / min(SMOOTHING_US, seen_us))
        self.now += (self._counts / elapsed_us - self.now) * share
        np.maximum(self.peak * math.exp(-elapsed_us / MEMORY_US), self.now, out=self.peak)
        self._counts[:] = 0
        self._since_us = now_us
        return True
