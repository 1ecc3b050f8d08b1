"""Polls the live streams of a run: in each round only those that may have something new.

Invariant: what it finds is what polling every stream in every round would find. Cost: proportional to the streams with
something new and to those whose sources do not know their next arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kigen.connectors.source_base import Times
from kigen.spark.admission.stream_arrivals import AdmissionClock, StreamArrivals
from kigen.spark.admission.wake_times import WakeTimes

Found = dict[str, tuple[Times, Times]]  # stream -> offsets and arrival times of new tuples


class StreamPolls:
    """All live streams of a run, and when each is polled next."""

    def __init__(self, streams: Iterable[StreamArrivals], at_most: int, clock: AdmissionClock) -> None:
        self._streams, self._at_most, self._clock = tuple(streams), at_most, clock
        self._wakes = WakeTimes()
        self._ask = set(range(len(self._streams)))  # streams to poll in the next round

    def poll(self, now_us: int, earliest: Callable[[str], int], ended: Callable[[str], None]) -> Found:
        """Returns what is new, per stream. Calls `ended` for streams that have arrived completely.

        `earliest` returns the first offset of a stream that a task has not read: not more than `at_most` tuples wait.
        """
        self._clock.now_us = now_us
        self._ask.update(self._wakes.take_due(now_us))
        asked, self._ask = self._ask, set()
        new: Found = {}
        for number in sorted(asked):
            stream = self._streams[number]
            if stream.known > self._at_most and earliest(stream.name) + self._at_most < stream.known:
                self._ask.add(number)
                continue  # enough tuples wait
            found = stream.poll(now_us, self._at_most)
            wake_us = stream.wake_us
            if wake_us is None or wake_us <= now_us:
                self._ask.add(number)
            else:
                self._wakes.set(number, wake_us)
            if stream.ended(stream.known):
                ended(stream.name)
            if len(found[0]):
                new[stream.name] = found
        return new

    def next_us(self, now_us: int) -> int | None:
        """Returns when a stream has something new at the earliest; None if no source knows it."""
        if not all(self._streams[number].is_unforeseen for number in self._ask):
            return now_us
        return self._wakes.earliest_us()

    @property
    def foreseen(self) -> bool:
        """Returns whether every source knows its next arrival, or calls when it comes."""
        return all(stream.calls or not stream.is_unforeseen for stream in self._streams)

    def call_on_news(self, call: Callable[[], None]) -> None:
        """Asks the sources to call when something has arrived."""
        for stream in self._streams:
            stream.call_on_news(call)
