"""Computes how many tuples any policy must miss, from the arrivals themselves.

All tuples cost the same, so one processor as fast as all cores together, without any other cost, bounds what can be in
time. Time is cut into slots of one tuple; arrivals are rounded down and deadlines up to slots, which only helps. EDF
that drops a tuple once its deadline has passed then serves as many tuples as any schedule can. Cost: a few microseconds
per tuple.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]


def least_missed(arrivals_us: Sequence[Times], deadlines_us: Sequence[int], per_second: float) -> int:
    """Returns the least number of tuples that miss their deadline at `per_second` tuples.

    Stream i arrives at `arrivals_us[i]`, and its tuples have `deadlines_us[i]`.
    """
    slots = per_second / 1e6
    first = np.concatenate([np.floor(at * slots) for at in arrivals_us]).astype(np.int64)
    late = [np.ceil((at + due) * slots) for at, due in zip(arrivals_us, deadlines_us, strict=True)]
    end = np.concatenate(late).astype(np.int64)
    order = np.argsort(first, kind="stable")
    releases, ends = first[order].tolist(), end[order].tolist()
    waiting: list[int] = []  # ends of slots in which a tuple may still run
    slot = missed = next_one = 0
    while next_one < len(releases) or waiting:
        if not waiting:
            slot = max(slot, releases[next_one])
        while next_one < len(releases) and releases[next_one] <= slot:
            heapq.heappush(waiting, ends[next_one])
            next_one += 1
        if heapq.heappop(waiting) <= slot:
            missed += 1
        else:
            slot += 1
    return missed
