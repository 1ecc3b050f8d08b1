"""`salvage`, Kigen's own policy for shared joins: if not everything can run before its eviction, runs what answers the
most queries per work.

The least that any policy must drop is a linear program (`kigen_lab.simulate.shared_joins`): work on a tuple lies
between its arrival and its eviction. Its optimum is greedy: group by group, from the steepest slope on, each takes what
the steeper ones leave room for, and the selected work runs in the order of eviction. `salvage` solves this anew for
what waits, in each period:

1. A tuple at place p of its buffer is evicted when p more have come. At a given rate that is its deadline, and speed x
   deadline is the room.
2. Groups, in the order of slope, take work from the oldest tuples on as long as no deadline is broken. Tuples to come
   within `ahead` buffers take part. The **price** of work is the slope of the first group that finds too little room,
   or 0 if all find enough.
3. This is done for the current rate and for the highest recent rate, which may return. Each is assumed to hold with
   probability 1/2. So groups below the mean of the two prices are refused, and of the others the oldest one selected at
   the current rate runs.

Refused work is lost only when its eviction comes, and it runs when nothing else is left. A group that was begun
continues. If everything would find room at the highest recent rate, with some to spare, the order is that of MQT: only
throughput is at stake.

Work is what the driver says that slices cost, so groups and slopes are those of the costs then (`window_hull`); else
it is window lengths. If slices do not go back (`forward_only`), a refused range is given up when its slice runs on a
later one of its stream.

Invariant: with room for everything at the highest recent rate, nothing is refused. Cost: one pass over the waiting
ranges per period. The oldest ranges are planned one by one, the rest in lumps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kigen.plan.shared_joins.window_hull import WindowHull, window_hull
from kigen.schedule.policy_interface import Floats, Ints
from kigen.schedule.slices.greedy import take_steepest, whole_parts
from kigen.schedule.slices.orders import Mqt
from kigen.schedule.slices.stream_rates import PERIOD_US, StreamRates

AHEAD = 1.2  # in buffers
_FRONT = 64  # ranges planned one by one; the rest in lumps
_LUMP = 64
_TO_COME = 16  # lumps of tuples that have not arrived yet
_SPEED_MEMORY = 20.0  # in periods
_SPARE = 1.1  # relative room that must be free to call everything safe
_LEAST = 1e-3  # work of a slice, at least
_AMPLE = 2.0  # periods of work to choose from


@dataclass(frozen=True)
class _Scenario:
    """Greedy selection under assumed rates. Rows are in `order` of deadlines; lump i starts at row `lumps[i]`. Work and
    selection are per group.
    """

    order: Ints
    lumps: Ints
    lumped: Floats
    taken: Floats
    price: float


class Salvage(Mqt):
    """Policy that salvages the most valuable work."""

    name = "salvage"

    def __init__(
        self, hull: WindowHull, buffers: Sequence[int | None], ahead: float = AHEAD, period_us: float = PERIOD_US
    ) -> None:
        super().__init__(hull, buffers)
        self.ahead = ahead
        self.rates = StreamRates(len(buffers), period_us)
        self.at_stake = True  # not everything that waits is safe at the highest recent rate
        self.refused = 0.0  # share of the waiting work that is refused
        self._price(hull)
        self._work = self._elapsed_us = self._longest = 0.0
        self._plan: list[tuple[int, int]] = []  # (range, level to reach), the next one last
        self._begun = (-1, 0)
        self._barren = False  # only refused work waits: no new plan before the next period

    def _price(self, hull: WindowHull) -> None:
        """Sets the groups, and what is left of each by level."""
        self._left = np.array(
            [
                [sum(hull.work[max(first - 1, level) : last]) for first, last in hull.groups]
                for level in range(hull.queries + 1)
            ]
        )
        self._ends = [last for _, last in hull.groups]
        self._slopes = np.array([hull.weights[first - 1] for first, _ in hull.groups])
        self._group_ends = [last for first, last in hull.groups for _ in range(first, last + 1)]  # per level

    def arrived(self, stream: int, count: int, level: int = 0, at_us: float = 0.0) -> None:
        super().arrived(stream, count, level, at_us)
        self.rates.arrived(stream, count)

    def completed(self, work: float, elapsed_us: float) -> None:
        self._work += work
        self._elapsed_us += elapsed_us
        self._longest = max(self._longest, work)

    def measure(self, now_us: float) -> None:
        if self.rates.measure(now_us) and self._elapsed_us > 0:
            keep = 1.0 - 1.0 / _SPEED_MEMORY
            self._work, self._elapsed_us, self._longest = (
                self._work * keep,
                self._elapsed_us * keep,
                self._longest * keep,
            )
            if self.costs is not self.hull.work:
                self._price(window_hull(np.cumsum(np.maximum(self.costs, _LEAST)).tolist()))
            self._plan_ahead()

    def pick(self) -> int | None:
        id, end = self._begun
        if self.backlog.level(id) < end:  # the rest of a group is worth more than any other work
            return id
        if not self.at_stake:
            return super().pick()
        while True:
            while self._plan:
                id, end = self._plan[-1]
                level = self.backlog.level(id)
                if level < end:
                    self._begin(id, level)
                    return id
                self._plan.pop()
            if self._barren or not self._elapsed_us:
                return self.backlog.oldest()
            self._plan_ahead()
            if not self.at_stake:
                return super().pick()

    def _begin(self, id: int, level: int) -> None:
        end = self._group_ends[level]
        self._begun = (id, end)
        self._longest = max(self._longest, self.backlog.where(id)[2] * sum(self.costs[level:end]))

    def _plan_ahead(self) -> None:
        """Plans what of the waiting work is worth running, and puts the first of it in order, enough for a period."""
        self._plan, self.refused = [], 0.0
        ids, streams, work, places = self._waiting()
        self._barren = not len(ids)
        if self._barren:
            return
        speed = self._work / self._elapsed_us
        high = self._scenario(work, _due_us(places, self.rates.peak[streams]), self.rates.peak, speed / _SPARE)
        self.at_stake = high.price > 0
        if not self.at_stake:
            return
        now = self._scenario(work, _due_us(places, self.rates.now[streams]), self.rates.now, speed)
        returning = bool((self.rates.peak > _SPARE * self.rates.now).any())
        price = (high.price + now.price) / 2 if returning else now.price
        taken = now.taken * (self._slopes >= price * (1 - 1e-9))
        self.refused = 1.0 - float(taken.sum()) / float(work.sum())
        ids, work = ids[now.order], work[now.order]
        budget = speed * self.rates.period_us
        enough = int(np.searchsorted(np.cumsum(taken.sum(axis=1)), _AMPLE * budget)) + 1
        rows = int(now.lumps[enough]) if enough < len(now.lumps) else len(ids)
        share = np.divide(taken, now.lumped, out=np.zeros_like(taken), where=now.lumped > 0)
        of_row = np.searchsorted(now.lumps, np.arange(rows), side="right") - 1
        parts = whole_parts(work[:rows], work[:rows] * share[of_row], budget)
        self._plan = [(int(ids[row]), self._ends[group]) for row, group in reversed(parts)]
        self._barren = not self._plan

    def _scenario(self, work: Floats, due_us: Floats, rates: Floats, speed: float) -> _Scenario:
        """Makes the greedy selection for the given deadlines, rates and speed."""
        order = np.argsort(due_us, kind="stable")
        lumps = np.append(np.arange(min(_FRONT, len(work))), np.arange(_FRONT, len(work), _LUMP))
        lumped = np.add.reduceat(work[order], lumps)
        rows, room = self._with_future_arrivals(lumped, due_us[order][lumps], rates, speed)
        taken = take_steepest(rows, room)
        short = taken.sum(axis=0) < rows.sum(axis=0) * (1 - 1e-6)
        price = float(self._slopes[short.argmax()]) if short.any() else 0.0
        return _Scenario(order, lumps, lumped, taken[: len(lumps)], price)

    def _waiting(self) -> tuple[Ints, Ints, Floats, Floats]:
        """Returns the ranges that are not done: ids, streams, work per group, and places.

        The place of a range is how many tuples must come to its stream before it begins to leave.
        """
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

    def _with_future_arrivals(self, work: Floats, due_us: Floats, rates: Floats, speed: float) -> tuple[Floats, Floats]:
        """Returns rows of work and the room up to each: the waiting ranges, and lumps of tuples to come.

        The tuples to come arrive at the given rates and are due after all that wait.
        """
        lanes = zip(self.backlog.lanes, rates.tolist(), strict=True)
        fill_us = max((lane.buffer / rate for lane, rate in lanes if lane.buffer and rate > 0), default=0.0)
        span_us = self.ahead * fill_us
        if not span_us:
            return work, self._room(due_us, speed)
        to_come = np.tile(self._left[0] * (span_us * float(rates.sum()) / _TO_COME), (_TO_COME, 1))
        to_come_us = fill_us + np.linspace(0.0, span_us, _TO_COME)
        return np.concatenate((work, to_come)), self._room(np.concatenate((due_us, to_come_us)), speed)

    def _room(self, due_us: Floats, speed: float) -> Floats:
        """Returns the work that can be done by then. A begun group continues, so the longest recent one may come
        first.
        """
        return np.maximum(0.0, speed * due_us - self._longest)

    def report(self) -> dict[str, Any]:
        return {**super().report(), "at_stake": self.at_stake, "refused": self.refused}


def _due_us(places: Floats, rates: Floats) -> Floats:
    """Returns when that many tuples have come; never, for a stream without arrivals."""
    due_us = np.full(len(places), np.inf)
    np.divide(places, rates, out=due_us, where=rates > 0)
    return due_us
