"""Drives a policy over slices (kigen.schedule.slices) in Spark's admission.

A task whose slices run separately has one queue per slice, each with its own cursors in the offset. The first slice
reads the tuples, the others follow. The policy's units decide how many tuples each slice processes of each stream. All
slices of a task are in a batch together. A slice that gets no tuples stays where it is, or advances in time if nothing
waits for it. `BUFFER n` bounds what waits for any slice. The oldest tuples beyond it are dropped, whole instants at a
time, for the queries of those slices that have not processed them yet. Invariant: in no stream is a slice ahead of one
before it, and the offset records the cursors of each. A task with one slice is treated as under any policy over tasks.
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
from kigen.schedule.slices import SliceAdmission, SlicedTask
from kigen.spark.admission.live_queues import Admit, Cursors, TaskInput, TaskQueue, queue_of
from kigen.spark.admission.scheduling import Scheduling, scheduled

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
        super().__init__(app, mine, sources, queues, policy, at_most, costs, tick_us)
        self._looked: set[str] = set()

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
            return SlicedTask((scheduled(task),), buffers)
        slices = self._slices[task.name]
        queues = [
            replace(task, name=queue_of(task.name, place), queries=tuple(q for q in task.queries if q.name in names))
            for place, names in enumerate(slices.queries)
        ]
        return SlicedTask(tuple(map(scheduled, queues)), buffers, slices.hull)

    @property
    def _cost_model(self) -> Any:
        return self.admission.costs

    # --- events ----------------------------------------------------------------------------------------------------

    def arrived(self, now_us: int, queues: dict[str, Cursors]) -> None:
        new = self._poll(now_us, queues)
        for number, task in enumerate(self._whole):
            self._feed_task(number, task, new, queues)
        self._looked.update(new)

    def _feed_task(
        self, number: int, task: Task, new: dict[str, tuple[Times, Times]], queues: dict[str, Cursors]
    ) -> None:
        """Reports arrivals in slots, in the order of arrival over the task's streams.

        After a restart it also reports which slices have processed them.
        """
        slices = self._count(task)
        keys: list[Times] = []
        for lane, stream in enumerate(self._streams[number]):
            offsets, at_us = new.get(stream, (np.zeros(0, np.int64),) * 2)
            if not len(offsets):
                continue
            levels = np.zeros(len(offsets), np.int64)
            if stream not in self._looked:
                cursors = [queues[queue_of(task.name, place)][stream]["index"] for place in range(slices)]
                levels = sum((offsets < cursor for cursor in cursors), levels)
            waits = levels < slices
            slots = (at_us[waits] // FEED_US * len(self._streams[number]) + lane) * slices
            keys.append(
                slots + slices - 1 - levels[waits]
            )  # within a slot, more slices have processed the older tuples
        found, counts = np.unique(np.concatenate(keys), return_counts=True) if keys else (np.zeros(0, np.int64),) * 2
        rest, left = np.divmod(found, slices)
        lanes = rest % max(1, len(self._streams[number]))
        for lane, behind, count in zip(lanes.tolist(), left.tolist(), counts.tolist(), strict=True):
            self.admission.arrived(number, lane, count, slices - 1 - behind)

    def _deadline_us(self, index: int) -> float | None:
        return self._tasks[index].deadline_us

    def _learn(self, done: Completion) -> None:
        self.admission.completed(done.elapsed_us)

    def _evict(self, queues: dict[str, Cursors]) -> None:
        for index, (number, place) in enumerate(self._where):
            task = self._whole[number]
            if place or not self._buffers[index]:
                continue
            last = index + self._count(task) - 1  # what waits for any slice also waits for the last
            queue = TaskQueue(queues[self._tasks[last].name], self._arrivals)
            for stream, room in self._buffers[index].items():
                before = self._evicted[last].get(stream, 0)
                beyond = min(queue.waiting(stream) - before - room, len(queue) - self._removed(last))
                if beyond > 0:
                    beyond = queue.whole_instants(stream, before, beyond)
                    lost = self.admission.evicted(number, self._streams[number].index(stream), beyond)
                    for slice_, count in enumerate(lost):
                        gone = self._evicted[index + slice_]
                        gone[stream] = gone.get(stream, 0) + count

    # --- decisions -------------------------------------------------------------------------------------------------

    def _decide(self, now_us: int) -> dict[int, Admit]:
        units = self.admission.next(float(now_us))
        grants: dict[int, Admit] = {}
        for index, (number, place) in enumerate(self._where):
            mine: dict[str, int] = {}
            for unit in units.get(number, ()):
                if unit.low <= place < unit.high:
                    stream = self._streams[number][unit.stream]
                    mine[stream] = mine.get(stream, 0) + unit.count
            if mine:
                grants[index] = mine
        return grants

    def _has_waiting(self) -> bool:
        return any(self.admission.pending(number) for number in range(len(self._whole)))

    def _with_dependents(self, due: list[int]) -> list[int]:
        tasks = {self._where[index][0] for index in due}
        return [index for index, (number, _) in enumerate(self._where) if number in tasks]

    def _with_time(self, taken: TaskInput, queue: TaskQueue) -> TaskInput:
        return replace(taken, until_us=queue.until_us(self._lateness_us))

    def can_pause(self, now_us: int, pause_us: float) -> bool:
        return not self._has_waiting()

    def report(self) -> dict[str, Any]:
        waiting = {task.name: self.admission.pending(number) for number, task in enumerate(self._whole)}
        return {**self.admission.report(), "waiting": waiting}
