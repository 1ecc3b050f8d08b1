"""SDMR Monitor: the stream deadline miss ratio, missed / born, over all time, the last execution or a sliding window.

Dropped tuples count as missed. `overdue` is separate: the share of all executed tuples that were too late, which is
useless work. Cost: amortised O(1) per event; the window keeps one entry per execution.
"""

from __future__ import annotations

from collections import deque


class SdmrMonitor:
    """Counts born and missed basic tasks."""

    def __init__(self, window_us: float = 1_000_000.0) -> None:
        self._window_us = window_us
        self.born = 0
        self.missed = 0
        self.decided = self.dropped = 0
        self.last = 0.0  # SDMR of the latest execution alone
        self._recent: deque[tuple[float, int, int]] = deque()  # (when, decided, missed)
        self._recent_decided = self._recent_missed = 0

    def arrived(self, count: int) -> None:
        self.born += count

    def executed(self, now_us: float, decided: int, missed: int, dropped: int = 0) -> None:
        """Counts an execution that decided `decided` basic tasks. `dropped` of the missed ones were dropped."""
        if not decided:
            return
        self.decided += decided
        self.dropped += dropped
        self.missed += missed
        self.last = missed / decided
        self._recent.append((now_us, decided, missed))
        self._recent_decided += decided
        self._recent_missed += missed
        recent, oldest = self._recent, now_us - self._window_us
        while recent[0][0] < oldest:
            _, gone, gone_missed = recent.popleft()
            self._recent_decided -= gone
            self._recent_missed -= gone_missed

    @property
    def total(self) -> float:
        """SDMR over all time."""
        return self.missed / self.born if self.born else 0.0

    @property
    def overdue(self) -> float:
        """Share of the executed tuples that were too late."""
        executed = self.decided - self.dropped
        return (self.missed - self.dropped) / executed if executed else 0.0

    @property
    def window(self) -> float:
        """SDMR over the sliding window."""
        return self._recent_missed / self._recent_decided if self._recent_decided else 0.0
