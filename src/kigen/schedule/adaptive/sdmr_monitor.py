"""SDMR Monitor: the stream deadline miss ratio, missed / born, in three readings: of all time, of the last execution,
of a sliding window.

What was shed counts as missed. `overdue` is apart from these: of all that was executed, the share that came too late,
work done in vain. Cost: O(1) an event, amortised; the window keeps one entry an execution.
"""

from __future__ import annotations

from collections import deque


class SdmrMonitor:
    def __init__(self, window_us: float = 1_000_000.0) -> None:
        self._window_us = window_us
        self.born = 0
        self.missed = 0
        self.decided = self.shed = 0
        self.last = 0.0  # of the latest execution alone
        self._recent: deque[tuple[float, int, int]] = deque()  # (when, decided, missed)
        self._recent_decided = self._recent_missed = 0

    def arrived(self, count: int) -> None:
        self.born += count

    def executed(self, now_us: float, decided: int, missed: int, shed: int = 0) -> None:
        """An execution decided the fate of so many basic tasks; of those missed, some were shed for it."""
        if not decided:
            return
        self.decided += decided
        self.shed += shed
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
        return self.missed / self.born if self.born else 0.0

    @property
    def overdue(self) -> float:
        executed = self.decided - self.shed
        return (self.missed - self.shed) / executed if executed else 0.0

    @property
    def window(self) -> float:
        return self._recent_missed / self._recent_decided if self._recent_decided else 0.0
