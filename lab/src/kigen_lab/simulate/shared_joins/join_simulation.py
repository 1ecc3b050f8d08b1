"""Runs a shared window join in virtual time: one processor, bounded buffers, and the same policies that admission uses.

Each stream's buffer is full at the start, and the oldest `done_share` of it is processed. In each stage tuples arrive
evenly, the streams in turns. A tuple that meets a full buffer evicts the oldest of its stream. A slice takes its work /
speed and is never interrupted: once begun, it counts as processed. Invariant: processed, dropped and waiting add up to
everything that arrived. Cost: some microseconds per slice.
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
    """Set-up of the paper.

    `speed` is the number of tuples per second of which all slices can be run, over all streams together. Rates are per
    stream.
    """

    windows: tuple[float, ...]
    speed: float = 6.5
    stages: tuple[tuple[float, float], ...] = (
        (500.0, 7.0),
        (500.0, 1.0),
        (500.0, 7.0),
        (500.0, 1.0),
    )  # (seconds, tuples per second)
    buffer: int = 5000
    done_share: float = 0.8
    streams: int = 2

    def scaled(self, load: float) -> JoinSetting:
        """Returns the same set-up with all rates multiplied."""
        return replace(self, stages=tuple((seconds, rate * load) for seconds, rate in self.stages))

    @property
    def end_s(self) -> float:
        return sum(seconds for seconds, _ in self.stages)

    @property
    def done_at_start(self) -> int:
        """Returns how many tuples of each stream are processed at the start."""
        return round(self.buffer * self.done_share)

    def arrivals_s(self) -> Floats:
        """Returns when tuples arrive, over all streams. The k-th belongs to stream k modulo `streams`."""
        parts, start = [], 0.0
        for seconds, rate in self.stages:
            gap = 1.0 / (rate * self.streams)
            parts.append(start + gap * (np.arange(round(seconds / gap)) + 0.5))
            start += seconds
        return np.concatenate(parts)


@dataclass(frozen=True)
class StageCount:
    """Counts since the start, of queries on tuples that arrived.

    `dropped_at_start` counts queries on tuples that were there at the start.
    """

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
    """Counts at the end of each stage."""

    stages: tuple[StageCount, ...]
    units: int
    busy_s: float

    @property
    def dropped(self) -> int:
        """Returns all dropped queries, including those on tuples that were there at the start."""
        return self.stages[-1].dropped + self.stages[-1].dropped_at_start


class _Run:
    """State of one run."""

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
            lost = sum(policy.evicted(stream, 1))  # tuple `number` of the stream, counted from the oldest at the start
            if lost:
                if number < buffer:
                    self.dropped_at_start += lost
                else:
                    self.dropped += lost
            policy.arrived(stream, 1)
            index += 1
        self._fed = index


def simulate_join(setting: JoinSetting, make: MakePolicy) -> JoinOutcome:
    """Runs a policy over the whole set-up."""
    policy = make(window_hull(setting.windows), (setting.buffer,) * setting.streams)
    return _Run(setting, policy).go()
