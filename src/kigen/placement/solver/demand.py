"""Whether a node can do its work in time by EDF: the work due within any span of time must fit into it.

Operators that follow each other are not pending together (the trap in the paper's formula 6): a `Timeline` places them
one after the other, by their sub-deadlines, from the moment the first has its input. What a timeline can demand within
a span t is the largest sum over windows of length t. Timelines of different sources may begin at any time, so their
demands add.

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
_LONGEST = 6  # periods a timeline may last before activations are taken together
_POINTS = 4000  # spans looked at, at most
_ROUNDING = 1e-9
_LEAST_ROOM = 1e-3  # of a node's time: with less left over, spans would have to be looked at without end


@dataclass(frozen=True)
class Curve:
    """Demand as steps: at `times` it rises to `work`, exactly so up to `until_us`; then each period adds `total`."""

    times: Floats
    work: Floats
    period_us: float | None
    total: float
    until_us: float = np.inf

    def at(self, t: Floats) -> Floats:
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
        """Work a microsecond in the long run."""
        return 0.0 if self.period_us is None else self.total / self.period_us

    @cached_property
    def density(self) -> float:
        """The largest demand over span: demands whose densities sum to 1 at most always fit."""
        return float(max((self.work / np.maximum(self.times, 1e-9)).max(initial=0.0), self.rate))

    @cached_property
    def burst(self) -> float:
        """Demand is never above rate * t + burst."""
        return float(np.maximum(0.0, self.work - self.rate * self.times).max(initial=0.0))

    def steps_until(self, end_us: float) -> Floats:
        if self.period_us is None or end_us <= self.until_us:
            return self.times[self.times <= end_us]
        last = self.times[self.times > self.until_us - self.period_us * (1 + _ROUNDING)]
        more = np.arange(1, int((end_us - self.until_us) / self.period_us) + 2) * self.period_us
        return np.concatenate((self.times, (last[:, None] + more).ravel()))


def together(length_us: float, period_us: float) -> float:
    """How many activations of a timeline of that length are taken as one: k at once demand no less than one by one."""
    return float(max(1.0, np.ceil(length_us / (_LONGEST * period_us))))


def curve(
    start: Sequence[float],
    end: Sequence[float],
    work: Sequence[float],
    period_us: float | None,
    at_once: float | None = None,
) -> Curve:
    """Of work items of one timeline: released at `start`, due at `end`, again each period."""
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
    """The largest sum over the windows that open at `begins`, for every span at which it rises."""
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
    """Of a task on its own, whose activations may come up to `jitter_us` closer together than the period."""
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
    """`demand`: the largest demand over span, `span_us` where it is: at most 1, and all sub-deadlines hold. `rate`: the
    share of time with work in the long run."""

    demand: float
    span_us: float
    rate: float


def fit(curves: Iterable[Curve], speed: float, blocking: Sequence[tuple[float, float]] = ()) -> Fit:
    """`blocking`: (sub-deadline, time of one tuple) of every task: a tuple of a later deadline that runs is not
    stopped."""
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
    """Whether demand never exceeds `limit` of the time."""
    return broken_span(curves, speed, limit) is None


def broken_span(curves: Sequence[Curve], speed: float, limit: float) -> float | None:
    """The span at which demand exceeds `limit` of it most; infinite where that never ends. Beyond burst / (limit -
    rate) it cannot, so spans up to there count."""
    room = limit * speed - sum(c.rate for c in curves)
    if room <= _ROUNDING * speed:  # full up to rounding: spans without end would have to be looked at
        return np.inf
    end = sum(c.burst for c in curves) / room
    times = np.unique(np.concatenate([c.steps_until(end) for c in curves]))
    if not len(times):
        return None
    ratios = np.sum([c.at(times) for c in curves], axis=0) / (limit * speed * np.maximum(times, 1e-9))
    worst = int(ratios.argmax())
    return float(times[worst]) if ratios[worst] > 1 + 2 * _ROUNDING else None


def _blocked(blocking: Sequence[tuple[float, float]], times: Floats) -> Floats:
    """For every span, the longest tuple of a task whose sub-deadline is beyond it."""
    late = np.array(sorted(blocking))
    longest = np.concatenate((np.maximum.accumulate(late[::-1, 1])[::-1], [0.0]))
    held: Floats = longest[np.searchsorted(late[:, 0], times * (1 + _ROUNDING), side="right")]
    return held
