"""The queues of live streams: what has arrived and which tasks have not taken it yet.

A live stream is a logical copy for each task that reads it: a task's cursor says how far it has taken the stream. A
task that reads several streams has one queue, in the order of arrival. Invariant: cursors live in the offset; all else
here can be made again from them. Cost: two numbers a waiting tuple and stream, whatever the number of tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kigen.connectors import LiveSource, Range
from kigen.connectors.source_base import Times
from kigen.lifetimes.blocks import FOREVER
from kigen.spark.admission.shedding import Shedding, kept_arrivals

_NONE = np.zeros(0, np.int64)
Cursors = dict[str, dict[str, Any]]  # stream -> {index, progress, ended}
Admit = int | dict[str, int]  # so many of the oldest tuples of all streams, or of each stream
_SLICE = " slice "


def queue_of(task: str, place: int) -> str:
    """The name of a task's queue; where slices run apart, each slice after the first has a queue of its own."""
    return f"{task}{_SLICE}{place + 1}" if place else task


def task_of(queue: str) -> str:
    return queue.partition(_SLICE)[0]


class StreamArrivals:
    """Of one stream, from the earliest cursor on: the tuples that stay (SHED), by number and time of arrival."""

    def __init__(self, name: str, source: LiveSource, shedding: Shedding | None, first: int) -> None:
        self.name, self.source, self._shedding = name, source, shedding
        self.known = first  # every tuple before this number has been looked at
        self.complete_us: int | None = None  # and every later one has this timestamp or a later one
        self.numbers = np.zeros(0, np.int64)
        self.times = np.zeros(0, np.int64)

    def poll(self, now_us: int, at_most: int) -> tuple[Times, Times]:
        """What is new: numbers and arrivals of the tuples that stay."""
        settled_us = now_us if self._shedding is None else self._shedding.settled_us(now_us) - 1
        end = max(self.known, min(self.source.arrived_by(settled_us), self.known + at_most))
        numbers, times = (
            (_NONE, _NONE) if end == self.known else kept_arrivals(self.source, self._shedding, self.known, end)
        )
        cut = end - self.known == at_most and at_most > 0
        self.known = end
        if cut:  # there may be more: only up to the last one looked at is all known
            self.complete_us = self.source.progress_before(end - 1, int(self.source.arrivals_us(end - 1, end)[0]))
        else:
            self.complete_us = self.source.complete_us(now_us if self._shedding is None else settled_us + 1)
        if len(numbers):
            self.numbers, self.times = np.concatenate((self.numbers, numbers)), np.concatenate((self.times, times))
        return numbers, times

    def forget_before(self, number: int) -> None:
        at = self.place(number)
        if at > len(self.numbers) // 2:
            self.numbers, self.times = self.numbers[at:], self.times[at:]

    def place(self, cursor: int) -> int:
        """Where in `numbers` and `times` a task at this cursor goes on."""
        return int(self.numbers.searchsorted(cursor))

    def cursor(self, place: int) -> int:
        """The cursor that goes on at this place; those that SHED let go before it are passed."""
        return int(self.numbers[place]) if place < len(self.numbers) else self.known

    def progress_us(self, place: int) -> int | None:
        """Up to when a task that goes on at this place knows the stream."""
        if place < len(self.times):
            return self.source.progress_before(int(self.numbers[place]), int(self.times[place]))
        return self.complete_us

    def ended(self, cursor: int) -> bool:
        return cursor == self.source.total()


@dataclass(frozen=True)
class TaskInput:
    """What a task gets in a batch: ranges to read, and what it passes over of each stream."""

    ranges: list[Range]
    shed: dict[str, tuple[int, int]]  # from which number to which
    dropped: dict[str, int]  # of those, how many had no room in the stream's BUFFER
    arrivals: Times  # of the tuples that it reads
    absent: dict[str, tuple[int, int]] = field(
        default_factory=dict
    )  # when the first and the last of those dropped arrived
    until_us: int | None = None  # up to when it knows its streams; FOREVER at their end

    def to_json(self, later: bool = False) -> dict[str, Any]:
        """`later`: of a slice after the first, which reads nothing itself, but is told how far to go."""
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
    """One task's view of the streams that it reads."""

    def __init__(self, cursors: Cursors, arrivals: dict[str, StreamArrivals]) -> None:
        self._cursors = cursors
        self._arrivals = [arrivals[name] for name in cursors]

    def __len__(self) -> int:
        return sum(len(a.numbers) - a.place(self._cursors[a.name]["index"]) for a in self._arrivals)

    @property
    def passed(self) -> int:
        """Numbers that have come and are no tuples, while no tuple waits: other nodes tell the time in them."""
        return sum(a.known - self._cursors[a.name]["index"] for a in self._open()) if not len(self) else 0

    def waiting(self, stream: str) -> int:
        return next(
            len(a.numbers) - a.place(self._cursors[stream]["index"]) for a in self._arrivals if a.name == stream
        )

    def whole_instants(self, stream: str, first: int, count: int) -> int:
        """At least `count` tuples after the first `first` that wait: as many more as arrived at the same instant as the
        last."""
        arrivals = next(a for a in self._arrivals if a.name == stream)
        begin = arrivals.place(self._cursors[stream]["index"]) + first
        return int(arrivals.times.searchsorted(arrivals.times[begin + count - 1], side="right")) - begin

    @property
    def over(self) -> bool:
        return all(state["ended"] for state in self._cursors.values())

    def at_end(self) -> bool:
        """Whether all of a stream has arrived, and the task does not know yet that it ends there."""
        return any(a.ended(a.known) for a in self._open())

    def reaches_us(self, lateness_us: dict[str, int]) -> int | None:
        """How far the task's time would come without taking anything."""
        known = [
            _less(a.progress_us(a.place(self._cursors[a.name]["index"])), lateness_us[a.name]) for a in self._open()
        ]
        return None if not known or any(at is None for at in known) else min(at for at in known if at is not None)

    def reached_us(self, lateness_us: dict[str, int]) -> int | None:
        """How far it has come."""
        known = [_less(self._cursors[a.name]["progress"], lateness_us[a.name]) for a in self._open()]
        return None if any(at is None for at in known) else min((at for at in known if at is not None), default=None)

    def _open(self) -> list[StreamArrivals]:
        return [a for a in self._arrivals if not self._cursors[a.name]["ended"]]

    def take(self, shed: int, admit: Admit, closing: bool = False, evicted: dict[str, int] | None = None) -> TaskInput:
        """Pass over the oldest tuples, `evicted` of each stream and then `shed` of all, read the next `admit`, and
        advance time on every stream of the task."""
        starts = [a.place(self._cursors[a.name]["index"]) for a in self._arrivals]
        dropped = {name: count for name, count in (evicted or {}).items() if count}
        places = [place + dropped.get(a.name, 0) for a, place in zip(self._arrivals, starts, strict=True)]
        absent = {
            a.name: (int(a.times[s]), int(a.times[p - 1]))
            for a, s, p in zip(self._arrivals, starts, places, strict=True)
            if p > s
        }
        middles, ends = self._split(places, shed), self._ends(places, shed, admit)
        ranges, gone, times = [], {}, []
        for a, place, middle, end in zip(self._arrivals, starts, middles, ends, strict=True):
            state = self._cursors[a.name]
            if state["ended"]:
                continue
            first = a.cursor(middle) if middle > place else state["index"]
            last = a.cursor(end) if end > place or end == len(a.numbers) else state["index"]
            ended = a.ended(last) or closing
            times.append(a.times[middle:end])
            if first > state["index"]:
                gone[a.name] = state["index"], first
            state.update(index=last, progress=a.progress_us(end), ended=ended)
            ranges.append(a.source.piece(a.name, first, last, state["progress"], ended))
        together = times[0] if len(times) == 1 else np.concatenate(times) if times else _NONE
        return TaskInput(ranges, gone, dropped, together, absent)

    def until_us(self, lateness_us: dict[str, int]) -> int | None:
        """The time of whoever stands here; FOREVER at the end of all streams, None before any is known."""
        return FOREVER if self.over else self.reached_us(lateness_us)

    def _ends(self, places: list[int], shed: int, admit: Admit) -> list[int]:
        if isinstance(admit, int):
            return self._split(places, shed + admit)
        return [place + admit.get(a.name, 0) for a, place in zip(self._arrivals, places, strict=True)]

    def _split(self, places: list[int], count: int) -> list[int]:
        """Where each stream stands after the `count` oldest tuples; at one instant, streams in their order."""
        if len(places) == 1:
            assert places[0] + count <= len(self._arrivals[0].numbers), f"{count} tuples are more than wait"
            return [places[0] + count]
        waiting = [a.times[place:] for a, place in zip(self._arrivals, places, strict=True)]
        total = sum(map(len, waiting))
        assert count <= total, f"{count} tuples of {total} that wait"
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


def _less(at_us: int | None, lateness_us: int) -> int | None:
    return None if at_us is None else at_us - lateness_us
