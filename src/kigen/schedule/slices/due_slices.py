"""Finds the slices that deadlines put before the order of a policy.

A query of slice k with a deadline needs the slices up to k of a tuple by the tuple's arrival + deadline. Suppose that
these slices run next, on the oldest tuples first. A range whose slices are then done in time, though no more than
`horizon_us` before its due time, would be late if they waited: it is **due**. What is late whatever runs next is not
due, so it cannot keep others from being in time; it stays in the order of the policy. To come to a due range, a slice
must go over the older ones first, and their work counts.

Invariant: ranges are returned in the order of arrival for each deadline, so no slice overtakes. Cost: one pass over
what waits per deadline and decision.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kigen.schedule.slices.backlog import Backlog


class DueSlices:
    """Deadlines of one shared join. `deadlines_us` are those of the slices' own queries; None: no deadline."""

    def __init__(self, deadlines_us: Sequence[float | None]) -> None:
        # (slices that must run, deadline)
        self._deadlines_us = [(level, d) for level, d in enumerate(deadlines_us, 1) if d is not None]

    @property
    def any(self) -> bool:
        return bool(self._deadlines_us)

    def find(
        self, backlog: Backlog, now_us: float, costs_us: Sequence[float], horizon_us: float
    ) -> list[tuple[int, int]]:
        """Returns (range, level to reach), in the order in which they should run."""
        ids, levels, counts, at_us = backlog.unfinished()
        upto_us = np.concatenate(([0.0], np.cumsum(costs_us)))  # work per tuple of the slices before each level
        found: list[tuple[float, list[tuple[int, int]]]] = []
        for level, deadline_us in self._deadlines_us:
            work_us = np.maximum(upto_us[level] - upto_us[levels], 0.0) * counts
            spare_us = at_us + deadline_us - now_us - np.cumsum(work_us)
            due = np.flatnonzero((levels < level) & (spare_us >= 0.0) & (spare_us <= horizon_us))
            if len(due):
                first = ids[: due[-1] + 1][levels[: due[-1] + 1] < level]
                found.append((float(spare_us[due].min()), [(id, level) for id in first.tolist()]))
        return [part for _, parts in sorted(found, key=lambda entry: entry[0]) for part in parts]
