"""Keeps what is known of one live stream: which tuples have arrived, and up to which time the stream is complete.

A source that knows its next arrival is not polled before it. Until then nothing but the time changes, so the watermark
is computed when someone asks for it. Arrivals that the source foresees are kept behind those that have come: they
come by the clock alone. Invariant: the watermark never passes a tuple that has not been polled. Cost: two integers per
tuple that waits or is foreseen; a poll costs a few microseconds, and less than one where arrivals are foreseen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from kigen.connectors import LiveSource
from kigen.connectors.source_base import Times
from kigen.lifetimes.blocks import FOREVER
from kigen.spark.admission.shedding import SLOT_US, Shedding, kept_arrivals

_NONE = np.zeros(0, np.int64)
_ROOM = 256  # tuples for which memory is reserved at first


class AdmissionClock:
    """Time of the round that is being decided. All streams of a run share it."""

    now_us: int = 0


class StreamArrivals:
    """Tuples of one stream that SHED keeps, from the earliest cursor on: their offsets and arrival times."""

    def __init__(
        self,
        name: str,
        source: LiveSource,
        shedding: Shedding | None,
        first: int,
        clock: AdmissionClock | None = None,
    ) -> None:
        self.name, self.source, self._shedding = name, source, shedding
        self.known = first  # every tuple before this offset has been polled,
        self._complete_us: int | None = None  # and, when it was polled, every later tuple had this timestamp or more
        self._clock = clock or AdmissionClock()
        self.calls = False  # whether the source calls when something has arrived
        self.wake_us: int | None = 0  # no poll finds anything new before then; None: not known
        self._kept = np.empty((2, _ROOM), np.int64)
        self._begin, self._end = 0, 0  # the part of `_kept` in use
        self._foreseen: list[int] = []  # arrival times that follow the part in use,
        self._come = 0  # and how many of them belong to it by now
        self._dense = True  # whether the kept offsets follow each other
        self.count = 0  # of kept tuples
        self._first = self._after = 0  # offset of the first kept tuple, and the one that follows the last

    @property
    def offsets(self) -> Times:
        return self._kept[0, self._begin : self._end]

    @property
    def times(self) -> Times:
        return self._kept[1, self._begin : self._end]

    def times_between(self, place: int, end: int) -> Times:
        """Returns `times[place:end]`."""
        return self._kept[1, self._begin + place : self._begin + end]

    @property
    def is_unforeseen(self) -> bool:
        """Returns whether the source does not know when its next tuple comes. It is polled in every round."""
        return self.wake_us is None

    @property
    def complete_us(self) -> int | None:
        """Returns the watermark: every tuple still to be polled has this timestamp or a later one."""
        now_us = self._clock.now_us
        if self.wake_us is not None and now_us < self.wake_us:
            return self.source.complete_us(now_us if self._shedding is None else self._shedding.settled_us(now_us))
        return self._complete_us

    def call_on_news(self, call: Callable[[], None]) -> None:
        """Asks the source to call when something has arrived. With SHED, that is not yet the time to poll it."""
        self.calls = self._shedding is None and self.source.call_on_news(call)

    def completes_at_us(self, watermark_us: int) -> int | None:
        """Returns when `complete_us` reaches the watermark if nothing arrives; None if that is not known."""
        known = self.calls or self.wake_us is not None
        at_us = self.source.completes_at_us(watermark_us) if known else None
        return at_us if at_us is None or at_us == FOREVER or self._shedding is None else _slot_end(at_us - 1)

    def poll(self, now_us: int, at_most: int) -> tuple[Times, Times]:
        """Polls the source and returns offsets and arrival times of the new tuples that SHED keeps."""
        self._clock.now_us = now_us
        if self._foresees():
            return self._poll_foreseen(now_us, at_most)
        settled_us = now_us if self._shedding is None else self._shedding.settled_us(now_us) - 1
        before = self.known
        end = max(before, min(self.source.arrived_by(settled_us), before + at_most))
        offsets, times = (_NONE, _NONE) if end == before else kept_arrivals(self.source, self._shedding, before, end)
        self.known = end
        if end - before == at_most > 0:
            # More tuples may have arrived, so only the time up to the last polled one is complete.
            self._complete_us = self.source.progress_before(end - 1, int(self.source.arrivals_us(end - 1, end)[0]))
        else:
            self._complete_us = self.source.complete_us(now_us if self._shedding is None else settled_us + 1)
        self.wake_us = self._next_poll_us(now_us)
        if self.calls and end - before == at_most:
            self.wake_us = now_us  # it has called for all of them together
        if len(offsets):
            self._keep(offsets, times, len(offsets) == end - before)
        return offsets, times

    def _foresees(self) -> bool:
        """Returns whether the arrival of the next tuple is kept already. Asks the source for more if none is left."""
        if self._come < len(self._foreseen):
            return True
        if self._shedding is not None:
            return False
        times = self.source.foreseen_us(self.known)
        self._foreseen, self._come = times.tolist(), 0
        if self._foreseen:
            self._make_room(len(times))
            self._kept[0, self._end : self._end + len(times)] = np.arange(self.known, self.known + len(times))
            self._kept[1, self._end : self._end + len(times)] = times
        return bool(self._foreseen)

    def _poll_foreseen(self, now_us: int, at_most: int) -> tuple[Times, Times]:
        """Takes what was foreseen until now, at most so many tuples."""
        place, left = self.count, at_most
        while True:
            came = min(bisect_right(self._foreseen, now_us, self._come) - self._come, left)
            self._first = self._first if self.count else self.known
            self._come += came
            self._end += came
            self.count += came
            self.known += came
            left -= came
            if self._come < len(self._foreseen) or not left or not self._foresees():
                break
        self._after = self.known
        is_next_known = self._come < len(self._foreseen)
        self.wake_us = self._foreseen[self._come] if is_next_known else self._next_poll_us(now_us)
        if self.count and (self.wake_us is None or self.wake_us <= now_us):  # more may have come already
            self._complete_us = self.progress_us(self.count - 1)
        new = slice(self._begin + place, self._end)
        return self._kept[0, new], self._kept[1, new]

    def _next_poll_us(self, now_us: int) -> int | None:
        at_us = self.source.next_arrival_us(self.known, now_us)
        return at_us if at_us is None or self._shedding is None or at_us == FOREVER else _slot_end(at_us)

    def _keep(self, offsets: Times, times: Times, dense: bool) -> None:
        new, count, first = len(offsets), self.count, int(offsets[0])
        self._dense = self._dense and dense and (not count or self._after == first)
        self._make_room(new)
        end = self._end + new
        self._kept[0, self._end : end] = offsets
        self._kept[1, self._end : end] = times
        self._end, self.count = end, count + new
        self._first = self._first if count else first
        self._after = first + new if dense else int(offsets[-1]) + 1

    def _make_room(self, new: int) -> None:
        if self._end + new > self._kept.shape[1]:
            grown = np.empty((2, max(_ROOM, 2 * (self.count + new))), np.int64)
            grown[:, : self.count] = self._kept[:, self._begin : self._end]
            self._kept, self._begin, self._end = grown, 0, self.count

    def forget_before(self, cursor: int) -> None:
        """Frees the memory of tuples before a cursor, once they are more than half of all."""
        self.source.forget_before(cursor)
        at = self.place(cursor)
        if at > self.count // 2:
            self._begin += at
            self.count -= at
            self._first = int(self._kept[0, self._begin]) if self.count else 0

    def place(self, cursor: int) -> int:
        """Returns the index in `offsets` and `times` at which a task with this cursor continues."""
        if self._dense:
            count, place = self.count, cursor - self._first
            return 0 if place <= 0 or not count else count if place > count else place
        return int(self.offsets.searchsorted(cursor))

    def cursor(self, place: int) -> int:
        """Returns the cursor that continues at this index. It is behind the tuples that SHED removed before it."""
        if place >= self.count:
            return self.known
        return self._first + place if self._dense else int(self.offsets[place])

    def progress_us(self, place: int) -> int | None:
        """Returns the time up to which a task that continues at this index knows the stream."""
        if place < self.count:
            at = self._begin + place
            return self.source.progress_before(int(self._kept[0, at]), int(self._kept[1, at]))
        return self.complete_us

    def ended(self, cursor: int) -> bool:
        return cursor == self.source.total()


def _slot_end(at_us: int) -> int:
    """Returns when the slot of SHED that this time is in has passed."""
    return (at_us // SLOT_US + 1) * SLOT_US
