"""The policy at work: what has arrived goes to it, what it decides becomes cursors and ranges, and it hears how long
batches took.

Lives in the reader's process on the driver, which owns queues, policy and cost model. Cursors are in the offset, so a
restart finds the queues again; what the cost model has learnt is written beside the checkpoint; the policy's own memory
(k, SDMR) begins anew. Invariant: a decision is carried out wholly in one offset; what is shed while nothing is admitted
waits for the next batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kigen.connectors import LiveSource
from kigen.connectors.source_base import Times
from kigen.durable import replace
from kigen.plan.logical import App
from kigen.plan.tasks import Task
from kigen.schedule import Completion, Policy, PolicySettings, ScheduledTask, make_policy
from kigen.spark.admission.live_queues import Admit, Cursors, StreamArrivals, TaskInput, TaskQueue, task_of
from kigen.spark.admission.shedding import Shedding
from kigen.spark.scratch import Committed

FEED_US = 2_000  # arrivals go to the policy in slots of this length
FIXED_US = 150_000.0  # first guess of a micro-batch's fixed cost
TUPLE_US = 2.0  # and of a tuple's, beside its COST
_FORGOTTEN = 4096  # tuples: taken ones are dropped when so many lie there
_SAVE_EVERY = 50  # batches: the costs learnt


def scheduled(task: Task) -> ScheduledTask:
    """Tasks are extracted so that FIRM is of all of a task's queries, with one deadline, or of none."""
    firm = all(query.firm for query in task.queries)
    cost_us = TUPLE_US + sum(query.cost_us or 0 for query in task.queries)
    return ScheduledTask(task.name, None if task.deadline_us is None else float(task.deadline_us), firm, cost_us)


class Scheduling:
    def __init__(
        self,
        app: App,
        tasks: tuple[Task, ...],
        sources: Mapping[str, LiveSource],
        queues: dict[str, Cursors],
        policy: tuple[str, PolicySettings],
        at_most: int,
        costs: Path | None = None,
        tick_us: int | None = None,
    ) -> None:
        self._tasks = [task for task in tasks if task.name in queues]
        self._lateness_us = {stream.name: stream.lateness_us for stream in app.streams}
        self._start(app, *policy, queues)
        self._costs_file, self._at_most = costs, at_most
        self._tick_us = tick_us
        self._tells = {task.name for task in self._tasks if any(query.sent for query in task.queries)}
        if costs is not None and costs.exists():
            self._cost_model.restore(json.loads(costs.read_bytes()))
        self._readers = {s: [i for i, t in enumerate(self._tasks) if s in queues[t.name]] for s in sources}
        self._arrivals: dict[str, StreamArrivals] = {}
        for stream, source in sources.items():
            shedding = None if app.stream(stream).shed is None else Shedding(app.stream(stream), source)
            self._arrivals[stream] = StreamArrivals(stream, source, shedding, self._earliest(stream, queues))
        self._fed: set[str] = set()
        self._shed = [0] * len(self._tasks)  # let go, and not in an offset yet
        self._buffers = [{s: n for s in queues[t.name] if (n := app.stream(s).buffer) is not None} for t in self._tasks]
        self._evicted: list[dict[str, int]] = [{} for _ in self._tasks]  # no room for them, and not in an offset yet
        self._running: tuple[int, int, list[tuple[int, int]], list[Times]] | None = (
            None  # seq, admitted at, grants, arrivals
        )
        self._closed_at_us: int | None = None
        self._batches = 0

    def _start(self, app: App, name: str, settings: PolicySettings, queues: dict[str, Cursors]) -> None:
        self.policy: Policy = make_policy(name, [scheduled(task) for task in self._tasks], settings)

    @property
    def _cost_model(self) -> Any:
        return getattr(self.policy, "costs")  # noqa: B009 - every policy of ours has one

    # --- events ----------------------------------------------------------------------------------------------------

    def arrived(self, now_us: int, queues: dict[str, Cursors]) -> None:
        """Tell the policy what has arrived since it was last told."""
        tasks: list[int] = []
        parts: list[Times] = []
        for stream, arrivals in self._arrivals.items():
            if arrivals.known > self._at_most and self._earliest(stream, queues) + self._at_most < arrivals.known:
                continue  # enough waits
            numbers, at_us = arrivals.poll(now_us, self._at_most)
            if not len(numbers):
                continue
            for index in self._readers[stream]:
                mine = at_us
                if stream not in self._fed:  # after a restart, tasks stand at different places
                    mine = at_us[numbers >= queues[self._tasks[index].name][stream]["index"]]
                tasks.append(index)
                parts.append(mine)
            self._fed.add(stream)
        if tasks:
            self._feed(np.repeat(tasks, [len(part) for part in parts]), np.concatenate(parts))

    def _feed(self, tasks: Times, at_us: Times) -> None:
        """In slots, all tasks at once: the key of a slot is (slot, task)."""
        size = len(self._tasks)
        keys, counts = np.unique(at_us // FEED_US * size + tasks, return_counts=True)
        slots, owners = np.divmod(keys, size)
        self.policy.arrived_many(owners, counts.astype(np.int64), (slots * FEED_US).astype(np.float64))

    def completed(self, seq: int, now_us: int, committed: Committed) -> None:
        """The batch `seq` is behind us: Spark asks for the next one."""
        if self._running is None or self._running[0] != seq:
            return
        _, admitted_us, grants, arrivals = self._running
        self._running = None
        finished_us = committed.at_us if committed.seq == seq else now_us
        missed = 0
        for (index, _), times in zip(grants, arrivals, strict=True):
            deadline_us = self._deadline_us(index)
            if deadline_us is not None:
                missed += int(times.searchsorted(finished_us - deadline_us))
        if grants:
            self._learn(Completion(float(finished_us), float(now_us - admitted_us), grants, missed))
        self._batches += 1
        if self._costs_file is not None and self._batches % _SAVE_EVERY == 1:
            replace(self._costs_file, json.dumps(self._cost_model.to_json()).encode())

    def _deadline_us(self, index: int) -> float | None:
        return self.policy.tasks[index].deadline_us

    def _learn(self, done: Completion) -> None:
        self.policy.completed(done)

    # --- decisions -------------------------------------------------------------------------------------------------

    def next(
        self, seq: int, now_us: int, queues: dict[str, Cursors], committed: Committed, closing: bool
    ) -> dict[str, TaskInput]:
        """What goes into the batch `seq`, task by task; the cursors in `queues` are moved. Nothing: no batch is due."""
        if closing and self._closed_at_us is None:
            self._closed_at_us = now_us
        self.arrived(now_us if self._closed_at_us is None else self._closed_at_us, queues)
        self._evict(queues)
        grants = self._decide(now_us)
        ended = {name for name, arrivals in self._arrivals.items() if arrivals.ended(arrivals.known)}
        due = self._together(
            [i for i in range(len(self._tasks)) if i in grants or self._is_due(i, queues, committed, ended)]
        )
        taken: dict[str, TaskInput] = {}
        times: list[Times] = []
        for index in due:
            name = self._tasks[index].name
            queue = TaskQueue(queues[name], self._arrivals)
            shed, admit = self._shed[index], grants.get(index, 0)
            last = closing and len(queue) == self._gone(index) + _count(admit)
            taken[name] = self._told(queue.take(shed, admit, last, self._evicted[index]), queue)
            self._shed[index], self._evicted[index] = 0, {}
            if index in grants:
                times.append(taken[name].arrivals if len(queues[name]) == 1 else np.sort(taken[name].arrivals))
        if taken:
            self._running = seq, now_us, [(i, _count(grants[i])) for i in due if i in grants], times
            for stream, arrivals in self._arrivals.items():
                if len(arrivals.numbers) > _FORGOTTEN:
                    arrivals.forget_before(self._earliest(stream, queues))
        return taken

    def _decide(self, now_us: int) -> dict[int, Admit]:
        decision = self.policy.next(float(now_us))
        for index, count in decision.shed:
            self._shed[index] += count
        return dict(decision.admit)

    def _together(self, due: list[int]) -> list[int]:
        """Those that must be in a batch if these are."""
        return due

    def _told(self, taken: TaskInput, queue: TaskQueue) -> TaskInput:
        """With what else the task has to know."""
        return taken

    def _evict(self, queues: dict[str, Cursors]) -> None:
        """What a stream's BUFFER has no room for goes, the oldest first, of each task that reads the stream. `may_drop`
        False (a drain): there is nothing live to bound."""
        for index, buffers in enumerate(self._buffers):
            if not buffers:
                continue
            queue, gone = TaskQueue(queues[self._tasks[index].name], self._arrivals), self._evicted[index]
            for stream, room in buffers.items():
                beyond = min(queue.waiting(stream) - gone.get(stream, 0) - room, len(queue) - self._gone(index))
                if beyond > 0:
                    gone[stream] = gone.get(stream, 0) + beyond
                    self.policy.evict(index, beyond)

    def _gone(self, index: int) -> int:
        return self._shed[index] + sum(self._evicted[index].values())

    def _earliest(self, stream: str, queues: dict[str, Cursors]) -> int:
        return min((queues[self._tasks[i].name][stream]["index"] for i in self._readers[stream]), default=0)

    def _is_due(self, index: int, queues: dict[str, Cursors], committed: Committed, ended: set[str]) -> bool:
        """A task that gets no tuples runs all the same when a known death has passed, or when its streams have
        ended."""
        name = self._tasks[index].name
        event_us, ending = (
            committed.next_events_us.get(task_of(name)),
            self._closed_at_us is not None or not ended.isdisjoint(queues[name]),
        )
        tells = self._tick_us is not None and name in self._tells
        marked = any(self._arrivals[stream].source.marked for stream in queues[name])
        if event_us is None and not ending and not tells and not marked:
            return False
        queue = TaskQueue(queues[name], self._arrivals)
        if queue.over:
            return False
        if ending and len(queue) == self._gone(index) and (self._closed_at_us is not None or queue.at_end()):
            return True
        if marked and queue.passed > _FORGOTTEN:
            return True
        if event_us is None and not tells:
            return False
        reaches, reached = queue.reaches_us(self._lateness_us), queue.reached_us(self._lateness_us)
        if tells and reaches is not None and (reached is None or reaches - reached >= (self._tick_us or 0)):
            return True  # others wait for this task's time
        if event_us is None:
            return False
        return reaches is not None and reaches >= event_us and (reached is None or reached < event_us)

    def report(self) -> dict[str, Any]:
        """For the command: what waits, what the policy thinks, what things cost."""
        waiting = {task.name: self.policy.pending(i) for i, task in enumerate(self._tasks)}
        return {**self.policy.report(), "waiting": waiting}


def _count(admit: Admit) -> int:
    return admit if isinstance(admit, int) else sum(admit.values())
