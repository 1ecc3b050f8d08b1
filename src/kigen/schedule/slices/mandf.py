"""`mandf` and `admandf`: MQT while the load is low, FIFO while it is high.

In each period, as many of the oldest tuples leave the buffers as new ones arrive. S is the sum of weights of the
queries not yet run on tuples that will leave within `ahead` periods. With W the weights of one tuple and r the tuples
per period, the load is high if S >= W * beta * r: then FIFO is used, else MQT. `ahead` = 1 is exactly the paper's rule.
`admandf` sets beta anew in each period, from the trend of load and rate.

FIFO is to save tuples from being dropped. If tuples are dropped all the same, and the driver says what slices cost, the
order is the one that answers more queries in the time there is: at the measured rate, FIFO answers all queries of as
many tuples as fit, MQT the narrow windows of all tuples first. That lasts until nothing was dropped for as long as the
buffers take to fill: a period without drops in between says only that they had some room. This is Kigen's addition;
without costs, the policies are the paper's.

Invariant: beta stays within 0..1, and a period without arrivals decides nothing. Cost: once per period, one pass over
the oldest r * ahead tuples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from kigen.plan.shared_joins.window_hull import WindowHull
from kigen.schedule.slices.orders import Mqt

BETA = 0.05
PERIOD_US = 500_000.0
_USABLE = 0.9  # share of the time that is left for slices, where the orders are compared
_BETTER = 1.1  # MQT must answer so many times as many queries as FIFO: costs are measured to within a few percent


class MandF(Mqt):
    """Switches between MQT and FIFO at a fixed load."""

    name = "mandf"

    def __init__(
        self,
        hull: WindowHull,
        buffers: Sequence[int | None],
        beta: float = BETA,
        period_us: float = PERIOD_US,
        ahead: float = 1.0,
    ) -> None:
        super().__init__(hull, buffers)
        self.beta, self.period_us, self.ahead = beta, period_us, ahead
        self.in_order = True  # FIFO is used
        self.switches = 0
        self._tuple_weight = sum(hull.weights)
        self._left = np.append(np.cumsum(hull.weights[::-1])[::-1], 0.0)  # weights not yet run, by level
        self._counts = [0] * len(buffers)
        self._next_us: float | None = None
        self._lost = 0  # queries on tuples that were dropped in this period
        self._lost_us = -math.inf  # when that was last noticed
        self._mean_rate: float | None = None  # tuples per period

    def arrived(self, stream: int, count: int, level: int = 0, at_us: float = 0.0) -> None:
        super().arrived(stream, count, level, at_us)
        self._counts[stream] += count

    def evicted(self, stream: int, count: int) -> list[int]:
        dropped = super().evicted(stream, count)
        self._lost += sum(dropped)
        return dropped

    def pick(self) -> int | None:
        return self.backlog.oldest() if self.in_order else super().pick()

    def measure(self, now_us: float) -> None:
        if self._next_us is None:  # tuples that wait at the start did not arrive in any period
            self._counts = [0] * len(self._counts)
            self._next_us = now_us + self.period_us
        if now_us < self._next_us:
            return
        periods = 1 + int((now_us - self._next_us) // self.period_us)
        self._next_us += periods * self.period_us
        counts = [count / periods for count in self._counts]
        self._counts = [0] * len(self._counts)
        rate = sum(counts)
        lost, self._lost = self._lost, 0
        if lost:
            self._lost_us = now_us
        if rate > 0:
            load = self._load(counts) / (self._tuple_weight * rate)
            fill_us = self._fill_us(counts)
            overloaded = self.costs is not self.hull.work and now_us - self._lost_us <= fill_us
            # one period has too few tuples for a rate: the mean over the time in which the buffers fill
            share = 1.0 if self._mean_rate is None else min(1.0, periods * self.period_us / fill_us)
            self._mean_rate = rate * share + (self._mean_rate or 0.0) * (1.0 - share)
            if overloaded:
                self.switch(not self._mqt_answers_more(self._mean_rate / self.period_us))
            else:
                self.decide(load, rate)
            self.gains_by_short_rounds = not (overloaded and self.in_order)

    def _fill_us(self, counts: Sequence[float]) -> float:
        """Returns the time in which the first buffer fills, at `counts` tuples per period."""
        lanes = zip(self.backlog.lanes, counts, strict=True)
        periods = (lane.buffer / count for lane, count in lanes if lane.buffer is not None and count > 0)
        return self.period_us * max(1.0, min(periods, default=1.0))

    def _mqt_answers_more(self, rate: float) -> bool:
        """Compares the two orders at a rate in tuples per microsecond, by what slices cost in microseconds."""
        fifo = self.hull.queries * min(rate, _USABLE / max(sum(self.costs), 1e-9))
        mqt, left = 0.0, _USABLE
        for cost in self.costs:
            share = min(1.0, left / max(rate * cost, 1e-9))
            mqt += rate * share
            left -= rate * cost * share
        return mqt > _BETTER * fifo

    def decide(self, load: float, rate: float) -> None:
        """Decides the order for the next period. `load` is the beta at which S equals the threshold."""
        self.switch(load >= self.beta)

    def switch(self, in_order: bool) -> bool:
        """Sets the order. Returns whether it changed."""
        changed = in_order != self.in_order
        self.switches += changed
        self.in_order = in_order
        return changed

    def _load(self, counts: Sequence[float]) -> float:
        """Returns S: the weights left on the oldest tuples, those that leave within `ahead` periods of such counts."""
        total = 0.0
        for stream, count in enumerate(counts):
            lane = self.backlog.lanes[stream]
            leaving = count * self.ahead - lane.free
            if leaving >= 1:
                upto = min(lane.end, lane.first + int(leaving))
                _, levels, ends = self.backlog.kept(stream, upto)
                tuples = np.diff(np.minimum(ends, upto), prepend=lane.first)
                total += float(self._left[levels] @ tuples)
        return total

    def report(self) -> dict[str, Any]:
        return {
            **super().report(),
            "beta": self.beta,
            "order": "fifo" if self.in_order else "mqt",
            "switches": self.switches,
        }


class AdMandF(MandF):
    """Adapts beta. Begins in FIFO.

    Without load, beta becomes in FIFO 0 at a high rate (stay) and 0.01 at a low one (change to MQT); in MQT 0.02 and
    0.03.
    """

    name = "admandf"
    _NO_LOAD: ClassVar = {
        (True, True): 0.0,
        (True, False): 0.01,
        (False, True): 0.02,
        (False, False): 0.03,
    }  # (FIFO is used, rate is high)

    def __init__(
        self,
        hull: WindowHull,
        buffers: Sequence[int | None],
        beta: float = BETA,
        period_us: float = PERIOD_US,
        ahead: float = 1.0,
    ) -> None:
        super().__init__(hull, buffers, beta, period_us, ahead)
        self._rate: float | None = None
        self._began = {True: 0.0, False: 0.0}  # rate at which FIFO (True) and MQT (False) last began

    def decide(self, load: float, rate: float) -> None:
        if self._rate is None:
            self._rate = rate
            self._began = {True: rate, False: rate}
        if self.switch(load >= self.beta):
            self._began[self.in_order] = rate
        rate_next = self._rate + (rate - self._rate) / (self.period_us / 1e6)
        self._rate = rate
        high = rate_next >= (self._began[True] + self._began[False]) / 2
        # With load, whatever its trend, beta becomes what it should have been in this period.
        self.beta = min(1.0, load) if load > 0 else self._NO_LOAD[self.in_order, high]
