"""Keeps the queues of live streams: which tuples have arrived, and which of them each task has not read yet.

Logically, each task that reads a live stream has its own copy of it. A cursor records how far the task has read. A task
that reads several streams has one queue, in the order of arrival. Invariant: the cursors are part of Spark's offset,
and everything else here can be rebuilt from them. Cost: a few microseconds per task that runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kigen.connectors import Range
from kigen.connectors.source_base import BIRTHS_FROM, Times
from kigen.lifetimes.blocks import FOREVER
from kigen.spark.admission.stream_arrivals import StreamArrivals

_NONE = np.zeros(0, np.int64)
Cursors = dict[str, dict[str, Any]]  # stream -> {index, progress, ended}, and `at` if the source has positions
Runs = list[tuple[int, int]]  # tuples to skip, then tuples to read, and so on
Admit = int | dict[str, Runs]  # a number of the oldest tuples over all streams, or runs per stream
Bounds = tuple[int, ...]  # first and end of a span, then of the next one, and so on
_SLICE = " slice "


def queue_of(task: str, place: int) -> str:
    """Returns the name of a task's queue. If slices run separately, each slice after the first has its own queue."""
    return f"{task}{_SLICE}{place + 1}" if place else task


def spans(bounds: Iterable[int]) -> list[tuple[int, int]]:
    """Returns the spans that bounds describe."""
    each = iter(bounds)
    return list(zip(each, each, strict=True))


def task_of(queue: str) -> str:
    """Returns the task that a queue belongs to."""
    return queue.partition(_SLICE)[0]


@dataclass(slots=True)
class TaskInput:
    """Input of one task in a batch: ranges to read, and ranges to skip per stream. Part of Spark's offset as JSON. Must
    not be changed: it is not frozen because a round makes hundreds of them."""

    ranges: list[Range]
    shed: dict[str, Bounds]  # stream -> offsets of the tuples to skip
    dropped: dict[str, int]  # stream -> how many of them had no room in the stream's BUFFER
    arrivals: Times  # arrival times of the tuples to read
    absent: dict[str, Bounds] = field(default_factory=dict)  # arrival of the first and last tuple of each dropped span
    until_us: int | None = None  # the time up to which the task knows its streams; FOREVER at their end

    def encoded(self, later: bool = False) -> str:
        """Returns the JSON. `later`: for a slice after the first, which reads nothing but must know how far to go."""
        ranges = ", ".join([piece.encoded() for piece in self.ranges])
        shed, dropped = _encoded(self.shed), _encoded(self.dropped)
        more = f', "absent": {json.dumps(self.absent)}, "until_us": {json.dumps(self.until_us)}' if later else ""
        return f'{{"ranges": [{ranges}], "shed": {shed}, "dropped": {dropped}{more}}}'


def _encoded(skipped: Mapping[str, Any]) -> str:
    return json.dumps(skipped) if skipped else "{}"


class TaskQueue:
    """Queue of one task: the tuples of its streams from its cursors on."""

    def __init__(self, cursors: Cursors, arrivals: dict[str, StreamArrivals]) -> None:
        self.cursors = cursors
        self._arrivals = [arrivals[name] for name in cursors]
        self._open = [(arrivals[name], state) for name, state in cursors.items() if not state["ended"]]

    def __len__(self) -> int:
        if len(self._arrivals) == 1:
            a = self._arrivals[0]
            return a.count - a.place(self.cursors[a.name]["index"])
        return sum([a.count - a.place(self.cursors[a.name]["index"]) for a in self._arrivals])

    @property
    def passed(self) -> int:
        """Returns how many watermark rows have arrived while no tuple waits."""
        return sum(a.known - state["index"] for a, state in self._open) if not len(self) else 0

    def waiting(self, stream: str) -> int:
        return next(a.count - a.place(self.cursors[stream]["index"]) for a in self._arrivals if a.name == stream)

    def whole_instants(self, stream: str, first: int, count: int) -> int:
        """Extends a range of `count` waiting tuples, after the first `first`, to all that arrived with its last one."""
        arrivals = next(a for a in self._arrivals if a.name == stream)
        begin = arrivals.place(self.cursors[stream]["index"]) + first
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
            at_us = a.progress_us(a.place(state["index"])) if state["index"] <= a.known else state["progress"]
            if at_us is None:
                return None
            at_us -= lateness_us[a.name]
            least_us = at_us if least_us is None or at_us < least_us else least_us
        return least_us

    def halts_before(self, watermark_us: int, lateness_us: dict[str, int]) -> bool:
        """Checks whether a waiting tuple keeps the watermark below this one until the task reads it."""
        for a, state in self._open:
            place = a.place(state["index"])
            if place < a.count:
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
        if not isinstance(admit, int):
            return self._take_runs(admit, closing)
        if len(self._arrivals) == 1 and not shed and not evicted:
            return self._take_plain(admit, closing)
        starts = [a.place(self.cursors[a.name]["index"]) for a in self._arrivals]
        dropped, places, absent = self._dropped(starts, evicted) if evicted else ({}, starts, {})
        middles, ends = self._split(places, shed), self._split(places, shed + admit)
        ranges, times = [], []
        gone: dict[str, Bounds] = {}
        for a, place, middle, end in zip(self._arrivals, starts, middles, ends, strict=True):
            state = self.cursors[a.name]
            if state["ended"]:
                continue
            index = state["index"]
            if index > a.known:
                ranges.append(self._nothing(a, state))
                continue
            first = a.cursor(middle) if middle > place else index
            last = a.cursor(end) if end > place or end == a.count else index
            ended = closing or a.ended(last)
            times.append(a.times[middle:end])
            begin = first
            if first > index and a.source.has_watermark_rows:
                begin = index  # deaths and watermarks among the rows to skip are read
            elif first > index:
                gone[a.name] = index, first
            state["index"], state["progress"], state["ended"] = last, a.progress_us(end), ended
            at = a.source.position(last)
            if at is not None:
                state["at"] = at
            piece = a.source.piece(a.name, begin, last, state["progress"], ended)
            ranges.append(piece if begin == first else replace(piece, start={**piece.start, BIRTHS_FROM: first}))
        return self._input(ranges, gone, dropped, times, absent)

    def _take_plain(self, admit: int, closing: bool) -> TaskInput:
        """Admits the next tuples of a task with one stream, where nothing is skipped: what most rounds do."""
        a = self._arrivals[0]
        state = self.cursors[a.name]
        index = state["index"]
        if state["ended"]:
            return self._input([], {}, {}, [], {})
        if index > a.known:
            return self._input([self._nothing(a, state)], {}, {}, [], {})
        place = a.place(index)
        end = place + admit
        assert end <= a.count, f"fewer than {admit} tuples wait"
        last = a.cursor(end) if admit or end == a.count else index
        ended = closing or a.ended(last)
        progress_us = a.progress_us(end)
        state["index"], state["progress"], state["ended"] = last, progress_us, ended
        if (at := a.source.position(last)) is not None:
            state["at"] = at
        if ended:
            self._open = []
        piece = a.source.piece(a.name, index, last, progress_us, ended)
        return TaskInput([piece], {}, {}, a.times_between(place, end))

    def _take_runs(self, runs: dict[str, Runs], closing: bool) -> TaskInput:
        """Skips and reads runs of tuples of each stream, and advances time on every stream. Moves the cursors."""
        ranges, times = [], []
        gone: dict[str, Bounds] = {}
        dropped: dict[str, int] = {}
        absent: dict[str, Bounds] = {}
        for a in self._arrivals:
            state = self.cursors[a.name]
            if state["ended"]:
                continue
            if state["index"] > a.known:
                ranges.append(self._nothing(a, state))
                continue
            index, place = state["index"], a.place(state["index"])
            pieces: list[tuple[int, int]] = []
            for skip, read in runs.get(a.name, ()):
                if skip:
                    after = a.cursor(place + skip)
                    gone[a.name] = (*gone.get(a.name, ()), index, after)
                    absent[a.name] = (*absent.get(a.name, ()), int(a.times[place]), int(a.times[place + skip - 1]))
                    dropped[a.name] = dropped.get(a.name, 0) + skip
                    index, place = after, place + skip
                if read:
                    after = a.cursor(place + read)
                    times.append(a.times[place : place + read])
                    pieces.append((index, after))
                    index, place = after, place + read
            if place == a.count:  # also over what holds no tuples
                last = a.cursor(place)
                pieces = [*pieces[:-1], (pieces[-1][0], last)] if pieces and pieces[-1][1] == index else pieces
                index = last
            if not pieces or pieces[-1][1] != index:
                pieces.append((index, index))
            state["index"], state["progress"], state["ended"] = index, a.progress_us(place), closing or a.ended(index)
            at = a.source.position(index)
            if at is not None:
                state["at"] = at
            ranges += [
                a.source.piece(a.name, first, end, state["progress"], state["ended"] and end == index)
                for first, end in pieces
            ]
        return self._input(ranges, gone, dropped, times, absent)

    @staticmethod
    def _nothing(a: StreamArrivals, state: dict[str, Any]) -> Range:
        """Returns an empty range of a stream that has not been polled up to the cursor since a restart."""
        return a.source.piece(a.name, state["index"], state["index"], state["progress"], False)

    def _input(
        self,
        ranges: list[Range],
        gone: dict[str, Bounds],
        dropped: dict[str, int],
        times: list[Times],
        absent: dict[str, Bounds],
    ) -> TaskInput:
        self._open = [(a, state) for a, state in self._open if not state["ended"]]
        together = times[0] if len(times) == 1 else np.concatenate(times) if times else _NONE
        return TaskInput(ranges, gone, dropped, together, absent)

    def _dropped(
        self, starts: list[int], evicted: dict[str, int]
    ) -> tuple[dict[str, int], list[int], dict[str, Bounds]]:
        """Returns the evicted tuples per stream, the index after them, and the arrivals of the first and the last."""
        dropped = {name: count for name, count in evicted.items() if count}
        places = [place + dropped.get(a.name, 0) for a, place in zip(self._arrivals, starts, strict=True)]
        absent: dict[str, Bounds] = {
            a.name: (int(a.times[s]), int(a.times[p - 1]))
            for a, s, p in zip(self._arrivals, starts, places, strict=True)
            if p > s
        }
        return dropped, places, absent

    def until_us(self, lateness_us: dict[str, int]) -> int | None:
        """Returns the task's watermark: FOREVER at the end of all streams, None before any is known."""
        return FOREVER if self.over else self.reached_us(lateness_us)

    def _split(self, places: list[int], count: int) -> list[int]:
        """Returns the index in each stream after the `count` oldest tuples.

        At one instant, streams go in their order.
        """
        if len(places) == 1:
            assert places[0] + count <= self._arrivals[0].count, f"fewer than {count} tuples wait"
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


class LiveQueues:
    """Queues of all tasks of a run, by index. A queue is made anew only if its cursors are another object."""

    def __init__(self, names: Sequence[str], arrivals: dict[str, StreamArrivals]) -> None:
        self._names, self._arrivals = names, arrivals
        self._queues: list[TaskQueue | None] = [None] * len(names)

    def of(self, index: int, queues: Mapping[str, Cursors]) -> TaskQueue:
        cursors, queue = queues[self._names[index]], self._queues[index]
        if queue is None or queue.cursors is not cursors:
            queue = self._queues[index] = TaskQueue(cursors, self._arrivals)
        return queue
