"""Demand test: whether a node can do its work in time by EDF. The work due within any span of time must fit into it.

Operators that follow each other are not pending together (the trap in the paper's formula 6). A timeline places them
one after the other, by their sub-deadlines, from the moment the first has its input (`node_demand`). The demand of a
timeline within a span t is the largest sum over windows of length t. Timelines of different sources may begin at any
time, so their demands add up.

Invariant: `Curve.at(t)` is never below the true demand within t. Cost: the square of a timeline's operators on the
node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_LONGEST = 6  # periods that a timeline may last before activations are merged
_POINTS = 4000  # spans tested at most
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Curve:
    """Demand as steps: at `times` it rises to `work`, exactly so up to `until_us`. After that, each period adds
    `total`.
    """

    times: Floats
    work: Floats
    period_us: float | None
    total: float
    until_us: float = np.inf

    def at(self, t: Floats) -> Floats:
        """Returns the demand within each span."""
        if self.period_us is None:
            back, shifted = np.zeros_like(t), t
        else:
            back = np.maximum(0.0, np.ceil((t - self.until_us) / self.period_us - _ROUNDING))
            shifted = t - back * self.period_us
        index = np.searchsorted(self.times, shifted * (1 + _ROUNDING), side="right")
        steps: Floats = np.concatenate(([0.0], self.work))[index] + back * self.total
        return steps

    @cached_property
    def rate(self) -> float:
        """Work per microsecond in the long run."""
        return 0.0 if self.period_us is None else self.total / self.period_us

    @cached_property
    def density(self) -> float:
        """The largest ratio of demand to span. Demands whose densities sum to at most 1 always fit."""
        return float(max((self.work / np.maximum(self.times, 1e-9)).max(initial=0.0), self.rate))

    @cached_property
    def burst(self) -> float:
        """The demand is never above rate * t + burst."""
        return float(np.maximum(0.0, self.work - self.rate * self.times).max(initial=0.0))

    def steps_until(self, end_us: float) -> Floats:
        """Returns the spans up to `end_us` at which the demand rises."""
        if self.period_us is None or end_us <= self.until_us:
            return self.times[self.times <= end_us]
        last = self.times[self.times > self.until_us - self.period_us * (1 + _ROUNDING)]
        more = np.arange(1, int((end_us - self.until_us) / self.period_us) + 2) * self.period_us
        return np.concatenate((self.times, (last[:, None] + more).ravel()))


def together(length_us: float, period_us: float) -> float:
    """Returns how many activations of a timeline of that length are merged into one.

    k activations at once demand at least as much as one by one.
    """
    return float(max(1.0, np.ceil(length_us / (_LONGEST * period_us))))


def curve(
    start: Sequence[float],
    end: Sequence[float],
    work: Sequence[float],
    period_us: float | None,
    at_once: float | None = None,
) -> Curve:
    """Returns the demand of the work items of one timeline: released at `start`, due at `end`, repeated each period."""
    a, b, c = (np.asarray(v, float) for v in (start, end, work))
    longest = float(b.max() - a.min())
    if period_us is None:
        return Curve(*_steps(a, a, b, c, np.inf), None, float(c.sum()))
    many = at_once or together(longest, period_us)
    period, c = period_us * many, c * many
    count = int(np.ceil(longest / period)) + 2
    until = (count - 1) * period
    shift = np.repeat(np.arange(count + 1) * period, len(a))
    rows = [np.tile(v, count + 1) for v in (a, b, c)]
    return Curve(*_steps(a, rows[0] + shift, rows[1] + shift, rows[2], until), period, float(c.sum()), until)


def _steps(begins: Floats, a: Floats, b: Floats, c: Floats, until: float) -> tuple[Floats, Floats]:
    """Returns, for every span at which it rises, the largest sum over the windows that open at `begins`."""
    inside = a[None, :] >= begins[:, None] - _ROUNDING * np.abs(begins[:, None])
    span = b[None, :] - begins[:, None]
    times = np.unique(span[inside])
    times = times[times <= until * (1 + _ROUNDING)]
    best = np.zeros_like(times)
    for row, mine in zip(span, inside, strict=True):
        order = np.argsort(row[mine], kind="stable")
        sums = np.concatenate(([0.0], np.cumsum(c[mine][order])))
        best = np.maximum(best, sums[np.searchsorted(row[mine][order], times * (1 + _ROUNDING), side="right")])
    return times, best


def sporadic(sub_deadline_us: float, work_us: float, period_us: float | None, jitter_us: float = 0.0) -> Curve:
    """Returns the demand of a single task whose activations may come up to `jitter_us` closer together than the
    period.
    """
    if period_us is None:
        return Curve(np.array([sub_deadline_us]), np.array([work_us]), None, work_us)
    many = together(sub_deadline_us + jitter_us, period_us)
    period, work = period_us * many, work_us * many
    until = (np.ceil((sub_deadline_us + jitter_us) / period) + 1) * period
    k = np.arange(int((until + jitter_us) / period) + 2)
    times = np.maximum(sub_deadline_us, k * period - jitter_us + sub_deadline_us)
    keep = times <= until * (1 + _ROUNDING)
    return Curve(times[keep], (k[keep] + 1) * work, period, work, float(until))


@dataclass(frozen=True)
class Fit:
    """Result of the demand test.

    `demand`: the largest ratio of demand to span; if it is at most 1, all sub-deadlines hold. `span_us`: where it
    occurs. `rate`: the share of time with work in the long run.
    """

    demand: float
    span_us: float
    rate: float


def fit(curves: Iterable[Curve], speed: float, blocking: Sequence[tuple[float, float]] = ()) -> Fit:
    """Tests the demand of all curves on one node.

    `blocking`: (sub-deadline, time of one tuple) of every task, since a running tuple of a later deadline is not
    stopped.
    """
    curves = [c for c in curves if len(c.times)]
    if not curves:
        return Fit(0.0, 0.0, 0.0)
    rate = sum(c.rate for c in curves) / speed
    burst = sum(c.burst for c in curves) / speed + max((t for _, t in blocking), default=0.0)
    end = max(float(c.times[-1]) for c in curves)
    while True:
        times = np.unique(np.concatenate([c.steps_until(end) for c in curves]))
        total = np.sum([c.at(times) for c in curves], axis=0) / speed
        if blocking:
            total = total + _blocked(blocking, times)
        ratios = total / np.maximum(times, 1e-9)
        worst = int(ratios.argmax())
        beyond = rate + burst / end if rate else 0.0
        if beyond <= ratios[worst] or len(times) > _POINTS:
            break
        end *= 2
    if beyond > ratios[worst]:
        return Fit(beyond, end, rate)
    return Fit(float(ratios[worst]), float(times[worst]), rate)


def within(curves: Sequence[Curve], speed: float, limit: float) -> bool:
    """Returns whether the demand never exceeds `limit` of the time."""
    return broken_span(curves, speed, limit) is None


def broken_span(curves: Sequence[Curve], speed: float, limit: float) -> float | None:
    """Returns the span at which the demand exceeds `limit` most, infinity if that never ends, or None.

    The demand cannot exceed it beyond burst / (limit - rate), so only spans up to there are tested.
    """
    room = limit * speed - sum(c.rate for c in curves)
    if room <= _ROUNDING * speed:  # full up to rounding: infinitely many spans would have to be tested
        return np.inf
    end = sum(c.burst for c in curves) / room
    times = np.unique(np.concatenate([c.steps_until(end) for c in curves]))
    if not len(times):
        return None
    ratios = np.sum([c.at(times) for c in curves], axis=0) / (limit * speed * np.maximum(times, 1e-9))
    worst = int(ratios.argmax())
    return float(times[worst]) if ratios[worst] > 1 + 2 * _ROUNDING else None


def _blocked(blocking: Sequence[tuple[float, float]], times: Floats) -> Floats:
    """Returns, for every span, the longest tuple of a task whose sub-deadline is beyond it."""
    late = np.array(sorted(blocking))
    longest = np.concatenate((np.maximum.accumulate(late[::-1, 1])[::-1], [0.0]))
    held: Floats = longest[np.searchsorted(late[:, 0], times * (1 + _ROUNDING), side="right")]
    return held
