"""Schedules the tuples of a synthetic stream: microseconds after its start, by tuple index.

Invariant: `offsets_us(a, b)` never decreases and depends on the indices alone. Evenly spaced arrivals are arithmetic.
Poisson arrivals are drawn in chunks: the length of a chunk is gamma distributed, and given its length, its arrivals are
uniform order statistics. So finding a place in the stream costs one number per chunk before it (cached) instead of one
per tuple. Bursty arrivals are Poisson arrivals with time stretched outside bursts and compressed within.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from kigen.connectors.synthetic.random_chunks import CHUNK, chunk_generator, series_key

Times = npt.NDArray[np.int64]
_GROUP = 1024  # chunk lengths that are drawn together
_KEPT = 8  # chunks: a live source needs the same ones many times per second


class ArrivalProcess(ABC):
    """Scheduled times of a stream with random access."""

    @abstractmethod
    def offsets_us(self, first: int, end: int) -> Times:
        """Returns the scheduled times of tuples first..end-1, counted from the stream's start."""

    def offset_us(self, index: int) -> int:
        """Returns the scheduled time of one tuple, counted from the stream's start."""
        return int(self.offsets_us(index, index + 1)[0])

    @abstractmethod
    def count_before(self, offset_us: int) -> int:
        """Returns how many tuples are scheduled before `offset_us`."""


class Constant(ArrivalProcess):
    def __init__(self, rate: float) -> None:
        self._rate = rate

    def offsets_us(self, first: int, end: int) -> Times:
        if end == first + 1 and self._rate == int(self._rate):  # without vectors: live streams ask for this most often
            return np.array([self.offset_us(first)], np.int64)
        indices = np.arange(first, end, dtype=np.int64)
        if self._rate == int(self._rate):
            return np.asarray(indices * 1_000_000 // int(self._rate), np.int64)
        return np.asarray(np.floor(indices * (1e6 / self._rate)), np.int64)

    def offset_us(self, index: int) -> int:
        whole = int(self._rate)
        return index * 1_000_000 // whole if self._rate == whole else super().offset_us(index)

    def count_before(self, offset_us: int) -> int:
        whole = int(self._rate)
        if self._rate == whole:  # i * 1e6 // rate < offset, solved for i
            return max(0, -(-offset_us * whole // 1_000_000))
        guess = max(0, int(offset_us * self._rate / 1e6) - 2)
        return guess + int(np.searchsorted(self.offsets_us(guess, guess + 4 + int(2 * self._rate / 1e6)), offset_us))


class Poisson(ArrivalProcess):
    def __init__(self, rate: float, seed: int, stream: str) -> None:
        self._mean_us = 1e6 / rate
        self._lengths_key = series_key(seed, stream, "arrivals", "lengths")
        self._places_key = series_key(seed, stream, "arrivals", "places")
        self._starts: list[Times] = []  # start of each chunk of a group, and of the next group's first chunk
        self._recent: dict[int, Times] = {}

    def offsets_us(self, first: int, end: int) -> Times:
        if end <= first:
            return np.empty(0, np.int64)
        head = first // CHUNK
        if (end - 1) // CHUNK == head:
            return self._chunk(head)[first - head * CHUNK : end - head * CHUNK]
        parts = [self._chunk(k) for k in range(head, (end - 1) // CHUNK + 1)]
        return np.concatenate(parts)[first - head * CHUNK : end - head * CHUNK]

    def offset_us(self, index: int) -> int:
        return int(self._chunk(index // CHUNK)[index % CHUNK])

    def count_before(self, offset_us: int) -> int:
        group = 0
        while self._group(group)[-1] < offset_us:
            group += 1
        # A chunk's last arrival is the start of the next: the answer is in the first chunk that ends at or after the
        # time.
        inside = int(self._group(group)[1:].searchsorted(offset_us))
        chunk = group * _GROUP + inside
        return chunk * CHUNK + int(self._chunk(chunk).searchsorted(offset_us))

    def _group(self, group: int) -> Times:
        while len(self._starts) <= group:
            at = len(self._starts)
            lengths = chunk_generator(self._lengths_key, at).gamma(CHUNK, self._mean_us, _GROUP)
            start = self._starts[-1][-1] if at else 0
            self._starts.append(
                start + np.concatenate((np.zeros(1, np.int64), np.cumsum(np.rint(lengths).astype(np.int64))))
            )
        return self._starts[group]

    def _chunk(self, chunk: int) -> Times:
        if chunk in self._recent:
            return self._recent[chunk]
        starts, inside = self._group(chunk // _GROUP), chunk % _GROUP
        start, length = starts[inside], starts[inside + 1] - starts[inside]
        places = np.sort(chunk_generator(self._places_key, chunk).random(CHUNK - 1))
        times: Times = start + np.append(np.floor(places * length).astype(np.int64), length)
        if len(self._recent) >= _KEPT:
            self._recent.pop(next(iter(self._recent)))
        self._recent[chunk] = times
        return times


class Bursty(ArrivalProcess):
    """ArrivalProcess at `burst` times the usual rate for `lasting_us` of every `every_us`, beginning at `phase_us` into
    it. The mean rate of a period stays `rate`."""

    def __init__(self, base: ArrivalProcess, burst: float, every_us: int, lasting_us: int, phase_us: int = 0) -> None:
        self._base, self._every = base, every_us
        low = every_us / (lasting_us * burst + every_us - lasting_us)  # intensity between bursts, for a mean of 1
        ends_us = phase_us + lasting_us
        self._knots = np.array([0.0, phase_us, ends_us, every_us])  # real time within a period
        # Time at an even rate that has passed at each knot.
        self._work = np.array([0.0, phase_us * low, phase_us * low + lasting_us * low * burst, every_us])
        self._recent: dict[int, Times] = {}
        self._found: tuple[int, Times] = 0, np.zeros(1, np.int64)  # chunk of the last count

    def offsets_us(self, first: int, end: int) -> Times:
        if end <= first:
            return np.empty(0, np.int64)
        head, last = first // CHUNK, (end - 1) // CHUNK
        times = self._chunk(head) if head == last else np.concatenate([self._chunk(k) for k in range(head, last + 1)])
        return times[first - head * CHUNK : end - head * CHUNK]

    def count_before(self, offset_us: int) -> int:
        chunk, times = self._found
        if not times[0] < offset_us <= times[-1]:
            period, rest = divmod(offset_us, self._every)
            even = period * self._every + float(np.interp(rest, self._knots, self._work))
            chunk = self._base.count_before(int(even) - 4) // CHUNK
            while (times := self._chunk(chunk))[-1] < offset_us:  # rounding: it may be in the next one
                chunk += 1
            self._found = chunk, times
        return chunk * CHUNK + int(times.searchsorted(offset_us))

    def _chunk(self, chunk: int) -> Times:
        found = self._recent.get(chunk)
        if found is None:
            periods, rest = np.divmod(self._base.offsets_us(chunk * CHUNK, (chunk + 1) * CHUNK), self._every)
            warped = np.floor(np.interp(rest, self._work, self._knots)).astype(np.int64)
            found = np.asarray(periods * self._every + np.minimum(warped, self._every - 1), np.int64)
            if len(self._recent) >= _KEPT:
                self._recent.pop(next(iter(self._recent)))
            self._recent[chunk] = found
        return found
