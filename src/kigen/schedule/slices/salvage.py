"""`salvage`, Kigen's own policy for shared joins: of what cannot all be run before it is evicted, what answers most queries for its work.

The least that any policy must drop is a linear program (`simulate/shared_join_bound`): work on a tuple lies between arrival and
eviction. Its optimum is greedy: group by group from the steepest, each takes what the steeper ones leave room for, and what was taken
runs in the order of eviction. `salvage` solves that anew for what waits, each period:
1. a tuple at place p of its buffer is evicted when p more have come: at the measured rate that is its deadline, and speed x deadline
   the room up to it;
2. groups in order of slope, oldest tuples first, take work as long as no deadline is broken; tuples to come within `ahead` buffers'
   time take part;
3. the oldest of what was taken runs. What was not taken is lost only when its eviction comes: if the rate falls before, it is taken
   after all.
If all that waits would hold its deadlines even at the highest rate of late, with room to spare, the order is MQT's: nothing is at stake
but throughput.

Invariant: with enough room for all, nothing is refused. Cost: a pass over the ranges that wait, each period; the oldest are planned
range by range, the rest in lumps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kigen.plan.window_hull import WindowHull
from kigen.schedule.events import Floats, Ints
from kigen.schedule.slices.greedy import take_steepest, whole_parts
from kigen.schedule.slices.orders import Mqt
from kigen.schedule.slices.rates import PERIOD_US, LaneRates

AHEAD = 0.5
_FRONT = 64  # ranges planned one by one; the rest in lumps
_LUMP = 64
_TO_COME = 16  # lumps of tuples that have not come yet
_SPEED_MEMORY = 20.0  # periods
_SPARE = 1.1  # room that must be there to call all safe
_AMPLE = 2.0  # periods' work to choose from


class Salvage(Mqt):
    name = "salvage"

    def __init__(
        self, hull: WindowHull, buffers: Sequence[int | None], ahead: float = AHEAD, period_us: float = PERIOD_US, spare: bool = True
    ) -> None:
        super().__init__(hull, buffers)
        self.ahead, self.spare = ahead, spare
        self.rates = LaneRates(len(buffers), period_us)
        self.at_stake = True  # not all that waits is safe at the highest rate of late
        self.refused = 0.0  # share of the work that waits
        self._left = np.array(
            [[sum(hull.work[max(first - 1, level) : last]) for first, last in hull.groups] for level in range(hull.queries + 1)]
        )
        self._ends = [last for _, last in hull.groups]
        self._work = self._elapsed_us = 0.0
        self._plan: list[tuple[int, int]] = []  # (range, level to reach), the next one last

    def arrived(self, stream: int, count: int, level: int = 0) -> None:
        super().arrived(stream, count, level)
        self.rates.arrived(stream, count)

    def completed(self, work: float, elapsed_us: float) -> None:
        self._work += work
        self._elapsed_us += elapsed_us

    def measure(self, now_us: float) -> None:
        if self.rates.measure(now_us) and self._elapsed_us > 0:
            keep = 1.0 - 1.0 / _SPEED_MEMORY
            self._work, self._elapsed_us = self._work * keep, self._elapsed_us * keep
            self._plan_ahead()

    def pick(self) -> int | None:
        if not self.at_stake:
            return super().pick()
        for again in (True, False):
            while self._plan:
                id, level = self._plan[-1]
                if self.backlog.level(id) < level:
                    return id
                self._plan.pop()
            if again and self._elapsed_us > 0:
                self._plan_ahead()
        return self.backlog.oldest()

    def _plan_ahead(self) -> None:
        """What of all that waits is worth running, and the first of it in order, enough for a period."""
        self._plan = []
        ids, streams, work, places = self._waiting()
        if not len(ids):
            return
        speed = self._work / self._elapsed_us
        total = work.sum(axis=1)
        if self.spare and self._safe(total, _due_us(places, self.rates.peak[streams]), speed):
            self.at_stake, self.refused = False, 0.0
            return
        self.at_stake = True
        due_us = _due_us(places, self.rates.now[streams])
        order = np.argsort(due_us, kind="stable")
        ids, work, due_us = ids[order], work[order], due_us[order]
        lumps = np.append(np.arange(min(_FRONT, len(ids))), np.arange(_FRONT, len(ids), _LUMP))
        lumped = np.add.reduceat(work, lumps)
        taken = take_steepest(*self._with_those_to_come(lumped, due_us[lumps], speed))[: len(lumps)]
        self.refused = 1.0 - float(taken.sum()) / float(total.sum())
        budget = speed * self.rates.period_us
        enough = int(np.searchsorted(np.cumsum(taken.sum(axis=1)), _AMPLE * budget)) + 1
        rows = int(lumps[enough]) if enough < len(lumps) else len(ids)
        share = np.divide(taken, lumped, out=np.zeros_like(taken), where=lumped > 0)
        of_row = np.searchsorted(lumps, np.arange(rows), side="right") - 1
        parts = whole_parts(work[:rows], work[:rows] * share[of_row], budget)
        self._plan = [(int(ids[row]), self._ends[group]) for row, group in reversed(parts)]

    def _waiting(self) -> tuple[Ints, Ints, Floats, Floats]:
        """Ranges not done: ids, streams, work by group, and how many tuples must come to its stream before it begins to leave."""
        found = []
        for stream, lane in enumerate(self.backlog.lanes):
            ids, levels, ends = self.backlog.kept(stream)
            starts = np.concatenate(([lane.first], ends[:-1])) if len(ends) else ends
            waits = levels < self.hull.queries
            ids, levels, starts, ends = ids[waits], levels[waits], starts[waits], ends[waits]
            work = self._left[levels] * (ends - starts)[:, None]
            found.append((ids, np.full(len(ids), stream), work, lane.free + 1.0 + starts - lane.first))
        ids, streams, work, places = (np.concatenate(column) for column in zip(*found, strict=True))
        return ids, streams, work, places

    def _safe(self, work: Floats, due_us: Floats, speed: float) -> bool:
        """Whether all that waits holds such deadlines, with room for a tenth more."""
        order = np.argsort(due_us, kind="stable")
        return bool((_SPARE * np.cumsum(work[order]) <= speed * due_us[order]).all())

    def _with_those_to_come(self, work: Floats, due_us: Floats, speed: float) -> tuple[Floats, Floats]:
        """Rows of work and the room up to each: those that wait, and lumps of tuples to come, due after all of them."""
        fill_us = [
            lane.buffer / rate for lane, rate in zip(self.backlog.lanes, self.rates.now.tolist(), strict=True) if lane.buffer and rate > 0
        ]
        if not fill_us or not self.ahead:
            return work, speed * due_us
        span_us = self.ahead * max(fill_us)
        tuples = span_us * float(self.rates.now.sum()) / _TO_COME
        to_come_us = max(fill_us) + np.linspace(0.0, span_us, _TO_COME)
        rows = np.concatenate((work, np.tile(self._left[0] * tuples, (_TO_COME, 1))))
        return rows, speed * np.concatenate((due_us, to_come_us))

    def report(self) -> dict[str, Any]:
        return {**super().report(), "at_stake": self.at_stake, "refused": self.refused}


def _due_us(places: Floats, rates: Floats) -> Floats:
    """When so many tuples have come; never, to a stream that brings none."""
    due_us = np.full(len(places), np.inf)
    np.divide(places, rates, out=due_us, where=rates > 0)
    return due_us
