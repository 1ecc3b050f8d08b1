"""Computes slices, groups and weights of queries over one join that differ in their windows.

With windows w1 < ... < wn, the join work of a tuple is cut into slices (w(i-1), wi]; a tuple at level i has run the
slices of queries 1..i. From level i, the best stop j maximises (j - i) / (wj - wi), the queries answered per work done
(Hammad et al., VLDB 2003). From level 0 on, these stops are the corners of the upper concave hull of the points (wi,
i). The segments of the hull are the **groups**, and a query's **weight** is the slope of its segment.

Invariant: the rest of a group is never less worthwhile than the whole group was, so a group that was begun continues.
Cost: n squared, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class WindowHull:
    """Hull of the windows of a join. Its tuples are in the order of windows; `stops` and `slopes` are by level, 0 to n
    - 1."""

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
        """Returns the order of MQT, such as 1,2,3-10: it runs each entry over all tuples before the next entry."""
        return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in self.groups)


def window_hull(windows: Sequence[float]) -> WindowHull:
    """Returns the hull of increasing windows, all above 0."""
    if not windows or windows[0] <= 0 or any(b <= a for a, b in pairwise(windows)):
        raise ValueError(
            f"windows of a shared join must be above 0 and increasing, got {list(windows)}: sort them, each once"
        )
    ends = (0.0, *(float(w) for w in windows))
    size = len(windows)
    stops, slopes = [], []
    for level in range(size):
        # the farthest of equally good stops: its slope is the same, and the group stays whole
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
