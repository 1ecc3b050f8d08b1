"""The two orders.

- `fifo` runs all slices of the oldest tuples first.
- `mqt` runs the slices first that answer the most queries per work.
"""

from __future__ import annotations

from collections.abc import Sequence

from kigen.plan.shared_joins.window_hull import WindowHull
from kigen.schedule.slices.slice_interface import SlicePolicy


class Fifo(SlicePolicy):
    """Oldest tuples first."""

    name = "fifo"
    gains_by_short_rounds = False

    def pick(self) -> int | None:
        return self.backlog.oldest()


class Mqt(SlicePolicy):
    """Maximises query throughput.

    Among equal slopes, the higher level runs first, so that a group that was begun continues; then the oldest.
    """

    name = "mqt"

    def __init__(self, hull: WindowHull, buffers: Sequence[int | None]) -> None:
        super().__init__(hull, buffers)
        self.gains_by_short_rounds = hull.queries > 1
        self._steepest_first = sorted(range(hull.queries), key=lambda level: (-hull.slopes[level], -level))

    def pick(self) -> int | None:
        oldest_at = self.backlog.oldest_at
        for level in self._steepest_first:
            if (id := oldest_at(level)) is not None:
                return id
        return None
