"""Keeps the queues of live streams: which tuples have arrived, and which of them each task has not read yet.

Logically, each task that reads a live stream has its own copy of it. A cursor records how far the task has read. A task
that reads several streams has one queue, in the order of arrival. Invariant: the cursors are part of Spark's offset,
and everything else here can be rebuilt from them. Cost: a few microseconds per task that runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kigen.connectors import Range
from kigen.connectors.source_base import Times
from kigen.lifetimes.blocks import FOREVER
from kigen.spark.admission.stream_arrivals import StreamArrivals

_NONE = np.zeros(0, np.int64)
Cursors = dict[str, dict[str, Any]]  # stream -> {index, progress, ended}, and `at` if the source has positions
Admit = int | dict[str, int]  # a number of the oldest tuples over all streams, or per stream
_SLICE = " slice "


def queue_of(task: str, place: int) -> str:
    """Returns the name of a task's queue. If slices run separately, each slice after the first has its own queue."""
    return f"{task}{_SLICE}{place + 1}" if place else task


def task_of(queue: str) -> str:
    """Returns the task that a queue belongs to."""
    return queue.partition(_SLICE)[0]


@dataclass(frozen=True)
class TaskInput:
    """Input of one task in a batch: ranges to read, and ranges to skip per stream. Part of Spark's offset as JSON."""

    ranges: list[Range]
    shed: dict[str, tuple[int, int]]  # stream -> first and end offset of the tuples to skip
    dropped: dict[str, int]  # stream -> how many of them had no room in the stream's BUFFER
    arrivals: Times  # arrival times of the tuples to read
    absent: dict[str, tuple[int, int]] = field(default_factory=dict)  # arrival of the first and last dropped tuple
    until_us: int | None = None  # the time up to which the task knows its streams; FOREVER at their end

    def to_json(self, later: bool = False) -> dict[str, Any]:
        """Converts to JSON. `later`: for a slice after the first, which reads nothing but must know how far to go."""
        body: dict[str, Any] = {
            "ranges": [piece.to_json() for piece in self.ranges],
            "shed": {s: list(passed) for s, passed in self.shed.items()},
            "dropped": self.dropped,
        }
        return (
            body | {"absent": {s: list(span) for s, span in self.absent.items()}, "until_us": self.until_us}
            if later
            else body
        )


class TaskQueue:
    """Queue of one task: the tuples of its streams from its cursors on."""

    def __init__(self, cursors: Cursors, arrivals: dict[str, StreamArrivals]) -> None:
        self._cursors = cursors
        self._arrivals = [arrivals[name] for name in cursors]
        self._open = [(arrivals[name], state) for name, state in cursors.items() if not state["ended"]]

    def __len__(self) -> int:
        return sum([len(a.offsets) - a.place(self._cursors[a.name]["index"]) for a in self._arrivals])

    @property
    def passed(self) -> int:
        """Returns how many watermark rows have arrived while no tuple waits."""
        return sum(a.known - state["index"] for a, state in self._open) if not len(self) else 0

    def waiting(self, stream: str) -> int:
        return next(
            len(a.offsets) - a.place(self._cursors[stream]["index"]) for a in self._arrivals if a.name == stream
        )

    def whole_instants(self, stream: str, first: int, count: int) -> int:
        """Extends a range of `count` waiting tuples, after the first `first`, to all that arrived with its last one."""
        arrivals = next(a for a in self._arrivals if a.name == stream)
        begin = arrivals.place(self._cursors[stream]["index"]) + first
        return int(arrivals.times.searchsorted(arrivals.times[begin + count - 1], side="right")) - begin

    @property
    def over(self) -> bool:
        return not self._open

    def at_end(self) -> bool:
        """Checks whether a stream has arrived completely, and the task does not know yet that it ends there."""
        for a, _ in self._open:  # noqa: SIM110 - a generator costs more than the rest
            if a.ended(a.known):
                return True
        return False

    def reaches_us(self, lateness_us: dict[str, int]) -> int | None:
        """Returns the watermark that the task would have if it ran without reading tuples."""
        least_us: int | None = None
        for a, state in self._open:
            at_us = a.progress_us(a.place(state["index"]))
            if at_us is None:
                return None
            at_us -= lateness_us[a.name]
            least_us = at_us if least_us is None or at_us < least_us else least_us
        return least_us

    def halts_before(self, watermark_us: int, lateness_us: dict[str, int]) -> bool:
        """Checks whether a waiting tuple keeps the watermark below this one until the task reads it."""
        for a, state in self._open:
            place = a.place(state["index"])
            if place < len(a.offsets):
                at_us = a.progress_us(place)
                if at_us is None or at_us - lateness_us[a.name] < watermark_us:
                    return True
        return False

    def reaches_at_us(self, watermark_us: int, lateness_us: dict[str, int]) -> int | None:
        """Returns when the watermark gets this far if nothing arrives or waits; None if that is not known."""
        latest_us: int | None = None
        for a, _ in self._open:
            at_us = a.completes_at_us(watermark_us + lateness_us[a.name])
            if at_us is None:
                return None
            latest_us = at_us if latest_us is None or at_us > latest_us else latest_us
        return latest_us

    def reached_us(self, lateness_us: dict[str, int]) -> int | None:
        """Returns the task's watermark."""
        least_us: int | None = None
        for a, state in self._open:
            at_us: int | None = state["progress"]
            if at_us is None:
                return None
            at_us -= lateness_us[a.name]
            least_us = at_us if least_us is None or at_us < least_us else least_us
        return least_us

    def wants_step(self) -> bool:
        """Returns whether the silence of a stream, all of which the task has read, moves its watermark."""
        return any(a.known == state["index"] and a.source.wants_step(state.get("at")) for a, state in self._open)

    def take(self, shed: int, admit: Admit, closing: bool = False, evicted: dict[str, int] | None = None) -> TaskInput:
        """Skips the oldest tuples, admits the next ones, and advances time on every stream of the task.

        Skips `evicted` tuples per stream and then `shed` tuples over all streams. Moves the cursors.
        """
        starts = [a.place(self._cursors[a.name]["index"]) for a in self._arrivals]
        dropped, places, absent = self._dropped(starts, evicted) if evicted else ({}, starts, {})
        middles, ends = self._split(places, shed), self._ends(places, shed, admit)
        ranges, gone, times = [], {}, []
        for a, place, middle, end in zip(self._arrivals, starts, middles, ends, strict=True):
            state = self._cursors[a.name]
            if state["ended"]:
                continue
            index = state["index"]
            first = a.cursor(middle) if middle > place else index
            last = a.cursor(end) if end > place or end == len(a.offsets) else index
            ended = closing or a.ended(last)
            times.append(a.times[middle:end])
            if first > index:
                gone[a.name] = index, first
            state["index"], state["progress"], state["ended"] = last, a.progress_us(end), ended
            at = a.source.position(last)
            if at is not None:
                state["at"] = at
            ranges.append(a.source.piece(a.name, first, last, state["progress"], ended))
        self._open = [(a, state) for a, state in self._open if not state["ended"]]
        together = times[0] if len(times) == 1 else np.concatenate(times) if times else _NONE
        return TaskInput(ranges, gone, dropped, together, absent)

    def _dropped(
        self, starts: list[int], evicted: dict[str, int]
    ) -> tuple[dict[str, int], list[int], dict[str, tuple[int, int]]]:
        """Returns the evicted tuples per stream, the index after them, and the arrivals of the first and the last."""
        dropped = {name: count for name, count in evicted.items() if count}
        places = [place + dropped.get(a.name, 0) for a, place in zip(self._arrivals, starts, strict=True)]
        absent = {
            a.name: (int(a.times[s]), int(a.times[p - 1]))
            for a, s, p in zip(self._arrivals, starts, places, strict=True)
            if p > s
        }
        return dropped, places, absent

    def until_us(self, lateness_us: dict[str, int]) -> int | None:
        """Returns the task's watermark: FOREVER at the end of all streams, None before any is known."""
        return FOREVER if self.over else self.reached_us(lateness_us)

    def _ends(self, places: list[int], shed: int, admit: Admit) -> list[int]:
        if isinstance(admit, int):
            return self._split(places, shed + admit)
        return [place + admit.get(a.name, 0) for a, place in zip(self._arrivals, places, strict=True)]

    def _split(self, places: list[int], count: int) -> list[int]:
        """Returns the index in each stream after the `count` oldest tuples.

        At one instant, streams go in their order.
        """
        if len(places) == 1:
            assert places[0] + count <= len(self._arrivals[0].offsets), f"fewer than {count} tuples wait"
            return [places[0] + count]
        waiting = [a.times[place:] for a, place in zip(self._arrivals, places, strict=True)]
        total = sum(map(len, waiting))
        assert count <= total, f"{count} tuples requested, {total} wait"
        if count in (0, total):
            return [place + (len(w) if count else 0) for place, w in zip(places, waiting, strict=True)]
        last_us = np.partition(np.concatenate(waiting), count - 1)[count - 1]
        below = [int(w.searchsorted(last_us, side="left")) for w in waiting]
        left = count - sum(below)
        split = []
        for place, w, before in zip(places, waiting, below, strict=True):
            same = min(left, int(w.searchsorted(last_us, side="right")) - before)
            split.append(place + before + same)
            left -= same
        return split
