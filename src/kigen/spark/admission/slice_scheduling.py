"""Drives a policy over slices (kigen.schedule.slices) in Spark's admission.

A task whose slices run separately has one queue per slice, each with its own cursors in the offset. The first slice
reads the tuples, the others follow. The policy's units say which tuples each slice processes of each stream. All slices
of a task are in a round together. A slice that gets no tuples stays where it is, or advances in time if nothing waits
for it. What a slice goes over without processing it is dropped for its queries: tuples that a BUFFER has no room for
(the oldest that wait for any slice, whole instants at a time), and tuples that the policy refused when it took later
ones. Invariant: in no stream is a slice ahead of one before it, and the offset records the cursors of each, with the
skipped tuples that later slices have not reached. A task with one slice is treated as under any policy over tasks.
Cost: a few microseconds per slot of arrivals and slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kigen.connectors import LiveSource
from kigen.connectors.source_base import Times
from kigen.plan.logical import App
from kigen.plan.shared_joins.slices import JoinSlices
from kigen.plan.tasks import Task
from kigen.schedule import Completion, PolicySettings
from kigen.schedule.slices import SliceAdmission, SlicedTask, Unit
from kigen.spark.admission.live_queues import Admit, Cursors, Runs, TaskInput, TaskQueue, queue_of, spans
from kigen.spark.admission.scheduling import Scheduling, count_of
from kigen.spark.rounds.round import note_skipped
from kigen.spark.scratch import Committed

FEED_US = 10_000  # arrivals are reported to the policy in slots of this length


class SliceScheduling(Scheduling):
    """Applies a policy over slices to the live queues of a run."""

    def __init__(
        self,
        app: App,
        tasks: tuple[Task, ...],
        sources: Mapping[str, LiveSource],
        queues: dict[str, Cursors],
        policy: tuple[str, PolicySettings],
        at_most: int,
        slices: Mapping[str, JoinSlices],
        costs: Path | None = None,
        tick_us: int | None = None,
    ) -> None:
        """`slices` has the tasks whose slices run separately. For the queues, each of their slices counts as a task."""
        self._slices = slices
        self._whole = [task for task in tasks if task.name in queues]
        each = [(number, place) for number, task in enumerate(self._whole) for place in range(self._count(task))]
        self._where = each  # per queue: the index of its task, and which slice it is
        mine = tuple(
            replace(self._whole[number], name=queue_of(self._whole[number].name, place)) for number, place in each
        )
        self._began = {
            queue: {stream: (cursor["index"], spans(cursor.get("skipped", ()))) for stream, cursor in mine.items()}
            for queue, mine in queues.items()
        }  # where each queue stands at the start
        self._at: list[dict[str, int]] = [dict.fromkeys(queues[task.name], 0) for task in mine]  # tuples passed
        self._units: dict[int, list[Unit]] = {}
        super().__init__(app, mine, sources, queues, policy, at_most, costs, tick_us)

    def _count(self, task: Task) -> int:
        return len(self._slices[task.name].queries) if task.name in self._slices else 1

    def _start(self, app: App, name: str, settings: PolicySettings, queues: dict[str, Cursors]) -> None:
        self._streams = [list(queues[task.name]) for task in self._whole]
        known = [
            self._sliced(app, task, streams, settings) for task, streams in zip(self._whole, self._streams, strict=True)
        ]
        self.admission = SliceAdmission(name, known, settings)

    def _sliced(self, app: App, task: Task, streams: list[str], settings: PolicySettings) -> SlicedTask:
        buffers = tuple(app.stream(stream).buffer if settings.may_drop else None for stream in streams)
        if task.name not in self._slices:
            return SlicedTask(tuple(self._scheduled([task])), buffers)
        slices = self._slices[task.name]
        queues = [
            replace(task, name=queue_of(task.name, place), queries=tuple(q for q in task.queries if q.name in names))
            for place, names in enumerate(slices.queries)
        ]
        return SlicedTask(tuple(self._scheduled(queues)), buffers, slices.hull)

    @property
    def _cost_model(self) -> Any:
        return self.admission.costs

    # --- events ----------------------------------------------------------------------------------------------------

    def arrived(self, now_us: int, queues: dict[str, Cursors]) -> None:
        new = self._poll(now_us, queues)
        for number, task in enumerate(self._whole):
            self._feed_task(number, task, new)

    def _feed_task(self, number: int, task: Task, new: dict[str, tuple[Times, Times]]) -> None:
        """Reports arrivals in slots, in the order of arrival over the task's streams.

        After a restart it also reports which slices have processed them, and which tuples were given up.
        """
        streams = self._streams[number]
        fed: list[tuple[int, int, int, int, float]] = []
        for lane, stream in enumerate(streams):
            offsets, at_us = new.get(stream, (np.zeros(0, np.int64),) * 2)
            levels = self._levels(task, stream, offsets)
            waits = slice(len(offsets) - len(levels), None)
            if not len(levels):
                continue
            slots = at_us[waits] // FEED_US
            cuts = np.flatnonzero((np.diff(slots) != 0) | (np.diff(levels) != 0)) + 1
            firsts = np.concatenate(([0], cuts))
            counts = np.diff(np.append(firsts, len(levels)))
            columns = (slots[firsts], np.full(len(firsts), lane), counts, levels[firsts], at_us[waits][firsts])
            fed += zip(*(column.tolist() for column in columns), strict=True)
        fed.sort(key=lambda entry: entry[:2])
        for _, lane, count, level, first_us in fed:
            self.admission.arrived(number, lane, count, level, float(first_us))

    def _levels(self, task: Task, stream: str, offsets: Times) -> Times:
        """Returns how many slices had processed each tuple at the start, without those that all had; all slices: it was
        given up.
        """
        slices = self._count(task)
        began = [self._began[queue_of(task.name, place)][stream] for place in range(slices)]
        if not len(offsets) or offsets[0] >= began[0][0]:
            return np.zeros(len(offsets), np.int64)
        offsets = offsets[offsets >= began[-1][0]]
        levels = np.zeros(len(offsets), np.int64)
        index = next(i for i, where in enumerate(self._where) if self._whole[where[0]] is task)
        for place, (cursor, _) in enumerate(began):
            levels += offsets < cursor
            self._at[index + place][stream] += int((offsets < cursor).sum())
        for _, skipped in began:
            for first, end in skipped:
                levels[(offsets >= first) & (offsets < end)] = slices
        return levels

    def _learn(self, done: Completion) -> None:
        if done.task_elapsed_us is None:
            self.admission.completed(done.elapsed_us, recording_us=done.recording_us)
            return
        measured = zip(done.admitted, done.task_elapsed_us, strict=True)
        parts_us = {self._where[index][0]: us for (index, _), us in measured}
        self.admission.completed(done.elapsed_us, parts_us, done.recording_us)

    def _evict(self, queues: dict[str, Cursors]) -> None:
        for index, (number, place) in enumerate(self._where):
            if place or not self._buffers[index]:
                continue
            last = index + self._count(self._whole[number]) - 1  # what waits for any slice also waits for the last
            queue = self._queues.of(last, queues)
            for stream, room in self._buffers[index].items():
                lane = self._streams[number].index(stream)
                first, end = self.admission.waiting(number, lane)
                if end - first > room:
                    beyond = queue.whole_instants(stream, first - self._at[last][stream], end - first - room)
                    self.admission.evicted(number, lane, beyond)

    # --- decisions -------------------------------------------------------------------------------------------------

    def next(
        self, seq: int, now_us: int, queues: dict[str, Cursors], committed: Committed, closing: bool
    ) -> dict[str, TaskInput]:
        taken = super().next(seq, now_us, queues, committed, closing)
        note_skipped(queues, {queue: given.shed for queue, given in taken.items()})
        return taken

    def _decide(self, now_us: int) -> dict[int, Admit]:
        self._units = self.admission.next(float(now_us))
        grants: dict[int, Admit] = {}
        for index, (number, _) in enumerate(self._where):
            if number in self._units:
                runs = self._runs(index)
                if count_of(runs):
                    grants[index] = runs
        return grants

    def _runs(self, index: int) -> dict[str, Runs]:
        """Returns what a slice skips and processes now, per stream."""
        number, place = self._where[index]
        units = [unit for unit in self._units.get(number, ()) if unit.low <= place < unit.high]
        found: dict[str, Runs] = {}
        for lane, stream in enumerate(self._streams[number]):
            at, runs = self._at[index][stream], list[tuple[int, int]]()
            for unit in units:
                if unit.stream != lane:
                    continue
                assert unit.first >= at, "a slice does not go back"
                if runs and unit.first == at:
                    runs[-1] = runs[-1][0], runs[-1][1] + unit.count
                else:
                    runs.append((unit.first - at, unit.count))
                at = unit.first + unit.count
            behind = self.admission.waiting(number, lane)[0] - at
            if behind > 0:
                runs.append((behind, 0))
            found[stream] = runs
        return found

    def _take(self, index: int, queue: TaskQueue, admit: Admit, closing: bool) -> TaskInput:
        runs = self._runs(index)
        last = closing and len(queue) == self._removed(index) + count_of(runs)
        taken = queue.take(0, runs, last)
        for stream, mine in runs.items():
            self._at[index][stream] += sum(skip + read for skip, read in mine)
        number, place = self._where[index]
        if place == self._count(self._whole[number]) - 1:
            self._units.pop(number, None)
        return replace(taken, until_us=queue.until_us(self._lateness_us))

    def _removed(self, index: int) -> int:
        return sum(skip for runs in self._runs(index).values() for skip, _ in runs)

    def _has_waiting(self) -> bool:
        return any(self.admission.pending(number) for number in range(len(self._whole)))

    def _with_dependents(self, due: list[int]) -> list[int]:
        tasks = {self._where[index][0] for index in due}
        return [index for index, (number, _) in enumerate(self._where) if number in tasks]

    def can_pause(self, now_us: int, pause_us: float) -> bool:
        return self.admission.can_pause(float(now_us), pause_us)

    def report(self) -> dict[str, Any]:
        waiting = {task.name: self.admission.pending(number) for number, task in enumerate(self._whole)}
        return {**self.admission.report(), "waiting": waiting}
