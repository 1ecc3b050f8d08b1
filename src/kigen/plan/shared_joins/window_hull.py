"""Queries over one join that differ in their windows: slices, groups and weights.

With windows w1 < ... < wn a tuple's join work is cut in slices (w(i-1), wi]; a tuple at level i has run the slices of
queries 1..i. From level i the best stop j maximises (j - i) / (wj - wi), queries answered for work done (Hammad et al.,
VLDB 2003). From level 0 on, these stops are the corners of the upper concave hull of the points (wi, i): its segments
are the **groups**, and a query's **weight** is the slope of its segment.

Invariant: work left of a group is never less worthwhile than the whole group was, so a group that was begun goes on.
Cost: n squared, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class WindowHull:
    """All tuples of numbers are in the order of windows; `stops` and `slopes` are by level, 0 to n - 1."""

    windows: tuple[float, ...]
    work: tuple[float, ...]  # of each slice
    stops: tuple[int, ...]
    slopes: tuple[float, ...]
    groups: tuple[tuple[int, int], ...]  # queries first..last, counted from 1
    weights: tuple[float, ...]  # of each query

    @property
    def queries(self) -> int:
        return len(self.windows)

    @property
    def order(self) -> str:
        """Such as 1,2,3-10: what MQT runs over all tuples before it turns to the next."""
        return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in self.groups)


def window_hull(windows: Sequence[float]) -> WindowHull:
    """The hull of windows that grow, all above 0."""
    if not windows or windows[0] <= 0 or any(b <= a for a, b in pairwise(windows)):
        raise ValueError(
            f"windows of a shared join must be above 0 and grow, got {list(windows)}: leave out equal ones, and sort"
        )
    ends = (0.0, *(float(w) for w in windows))
    size = len(windows)
    stops, slopes = [], []
    for level in range(size):
        # of equally good stops the farthest: its slope is the same, and the group is whole
        slope, stop = max(((j - level) / (ends[j] - ends[level]), j) for j in range(level + 1, size + 1))
        stops.append(stop)
        slopes.append(slope)
    groups, weights, level = [], [], 0
    while level < size:
        groups.append((level + 1, stops[level]))
        weights += [slopes[level]] * (stops[level] - level)
        level = stops[level]
    work = tuple(b - a for a, b in pairwise(ends))
    return WindowHull(ends[1:], work, tuple(stops), tuple(slopes), tuple(groups), tuple(weights))
