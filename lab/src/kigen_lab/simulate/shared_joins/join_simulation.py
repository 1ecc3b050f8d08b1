"""A shared window join in virtual time: one processor, bounded buffers, the very policies that admission drives.

Each stream's buffer is full at the start, its oldest `done_share` processed. In each stage tuples come evenly, the
streams in turns; a tuple that comes to a full buffer makes the oldest of its stream leave. A slice takes its work /
speed and is never broken off: what has begun counts as processed. Invariant: of what arrived, processed + dropped +
waiting is everything. Cost: some microseconds a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kigen.plan.shared_joins.window_hull import WindowHull, window_hull
from kigen.schedule.slices import SlicePolicy

Floats = npt.NDArray[np.float64]
MakePolicy = Callable[[WindowHull, Sequence[int | None]], SlicePolicy]


@dataclass(frozen=True)
class JoinSetting:
    """The paper's set-up. `speed`: tuples a second of which all slices are run, of all streams together; rates are per
    stream."""

    windows: tuple[float, ...]
    speed: float = 6.5
    stages: tuple[tuple[float, float], ...] = (
        (500.0, 7.0),
        (500.0, 1.0),
        (500.0, 7.0),
        (500.0, 1.0),
    )  # (seconds, tuples a second)
    buffer: int = 5000
    done_share: float = 0.8
    streams: int = 2

    def scaled(self, load: float) -> JoinSetting:
        """The same with all rates that many times as high."""
        return replace(self, stages=tuple((seconds, rate * load) for seconds, rate in self.stages))

    @property
    def end_s(self) -> float:
        return sum(seconds for seconds, _ in self.stages)

    @property
    def done_at_start(self) -> int:
        """Tuples of each stream that are processed at the start."""
        return round(self.buffer * self.done_share)

    def arrivals_s(self) -> Floats:
        """When the tuples come, over all streams; the k-th is of stream k modulo `streams`."""
        parts, start = [], 0.0
        for seconds, rate in self.stages:
            gap = 1.0 / (rate * self.streams)
            parts.append(start + gap * (np.arange(round(seconds / gap)) + 0.5))
            start += seconds
        return np.concatenate(parts)


@dataclass(frozen=True)
class StageCount:
    """Since the start, of queries on tuples that arrived; `dropped_at_start` is of tuples that were there at the
    start."""

    arrived: int
    processed: int
    dropped: int
    dropped_at_start: int

    @property
    def processed_rate(self) -> float:
        return self.processed / self.arrived

    @property
    def dropped_rate(self) -> float:
        return self.dropped / self.arrived


@dataclass(frozen=True)
class JoinOutcome:
    stages: tuple[StageCount, ...]
    units: int
    busy_s: float

    @property
    def dropped(self) -> int:
        """All queries dropped, on tuples there at the start too."""
        return self.stages[-1].dropped + self.stages[-1].dropped_at_start


class _Run:
    def __init__(self, setting: JoinSetting, policy: SlicePolicy) -> None:
        self.setting, self.policy = setting, policy
        self._arrivals = setting.arrivals_s().tolist()
        self._per_work = 1.0 / (setting.speed * setting.windows[-1])  # seconds
        self._fed = self.units = 0
        self.now = self.busy_s = 0.0
        self.processed = self.dropped = self.dropped_at_start = 0
        queries = len(setting.windows)
        for index in range(setting.buffer):
            for stream in range(setting.streams):
                policy.arrived(stream, 1, queries if index < setting.done_at_start else 0)

    def go(self) -> JoinOutcome:
        counts, until = [], 0.0
        for seconds, _ in self.setting.stages:
            until += seconds
            self._run_until(until)
            self._feed(until)
            arrived = self._fed * len(self.setting.windows)
            counts.append(StageCount(arrived, self.processed, self.dropped, self.dropped_at_start))
        return JoinOutcome(tuple(counts), self.units, self.busy_s)

    def _run_until(self, until: float) -> None:
        policy, buffer, per_work, arrivals, size = (
            self.policy,
            self.setting.buffer,
            self._per_work,
            self._arrivals,
            len(self._arrivals),
        )
        while self.now < until:
            if self._fed < size and arrivals[self._fed] <= self.now:
                self._feed(self.now)
            units = policy.next(self.now * 1e6)
            if not units:
                if self._fed == size or arrivals[self._fed] >= until:
                    self.now = until
                    return
                self.now = arrivals[self._fed]
                continue
            unit = units[0]
            elapsed_s = unit.work * per_work
            self.now += elapsed_s
            self.busy_s += elapsed_s
            self.units += 1
            policy.completed(unit.work, elapsed_s * 1e6)
            if unit.first >= buffer:
                self.processed += unit.high - unit.low

    def _feed(self, until: float) -> None:
        policy, arrivals, streams, size, buffer = (
            self.policy,
            self._arrivals,
            self.setting.streams,
            len(self._arrivals),
            self.setting.buffer,
        )
        index = self._fed
        while index < size and arrivals[index] <= until:
            stream, number = index % streams, index // streams
            lost = sum(policy.evicted(stream, 1))  # tuple `number` of the stream, from the oldest of the start
            if lost:
                if number < buffer:
                    self.dropped_at_start += lost
                else:
                    self.dropped += lost
            policy.arrived(stream, 1)
            index += 1
        self._fed = index


def simulate_join(setting: JoinSetting, make: MakePolicy) -> JoinOutcome:
    """Run a policy over the whole set-up."""
    policy = make(window_hull(setting.windows), (setting.buffer,) * setting.streams)
    return _Run(setting, policy).go()
