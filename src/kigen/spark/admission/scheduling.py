"""Drives the policy: reports arrivals to it, turns its decisions into cursors and ranges, and reports batch durations.

It runs in the reader's process on the driver, which owns queues, policy and cost model. The cursors are part of Spark's
offset, so a restart finds the queues again. The learnt costs are saved in the checkpoint. The policy's own memory (k,
SDMR) starts anew. Invariant: one offset carries out the whole of a decision. What is shed while nothing is admitted
waits for the next batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kigen.connectors import LiveSource
from kigen.connectors.source_base import Times
from kigen.durable import replace
from kigen.lifetimes.blocks import FOREVER
from kigen.plan.logical import App
from kigen.plan.tasks import Task
from kigen.schedule import Completion, Policy, PolicySettings, ScheduledTask, make_policy
from kigen.spark.admission.due_tasks import DueTasks, Events
from kigen.spark.admission.live_queues import Admit, Cursors, LiveQueues, TaskInput, TaskQueue, task_of
from kigen.spark.admission.shedding import shedding_of
from kigen.spark.admission.stream_arrivals import AdmissionClock, StreamArrivals
from kigen.spark.admission.stream_polls import StreamPolls
from kigen.spark.scratch import Committed

FEED_US = 2_000  # arrivals are reported to the policy in slots of this length
TUPLE_US = 2.0  # first guess of the cost per tuple, without its COST
_KEPT_TUPLES = 4096  # memory of admitted tuples is freed when there are more
_SAVE_EVERY = 50  # batches after which the learnt costs are saved


def scheduled(task: Task, step_us: float = 0.0) -> ScheduledTask:
    """Describes a task to the policy. Either all queries of a task are FIRM, with one deadline, or none is.

    `step_us`: what its streams add to the first guess of a tuple's cost.
    """
    firm = all(query.firm for query in task.queries)
    cost_us = TUPLE_US + step_us + sum(query.cost_us or 0 for query in task.queries)
    deadline_us, drop_us = (None if us is None else float(us) for us in (task.deadline_us, task.drop_us))
    return ScheduledTask(task.name, deadline_us, firm, cost_us, drop_us)


class Scheduling:
    """Applies a policy to the live queues of a run."""

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
        self._step_us = {
            task.name: max((sources[stream].step_us for stream in queues[task.name]), default=0.0)
            for task in self._tasks
        }
        self._start(app, *policy, queues)
        self._costs_file, self._at_most = costs, at_most
        self._sends = {task.name for task in self._tasks if any(query.sent for query in task.queries)}
        if costs is not None and costs.exists():
            self._cost_model.restore(json.loads(costs.read_bytes()))
        self._readers = {s: [i for i, t in enumerate(self._tasks) if s in queues[t.name]] for s in sources}
        clock = AdmissionClock()
        self._arrivals: dict[str, StreamArrivals] = {}
        for stream, source in sources.items():
            cursors = [queue[stream] for queue in queues.values() if stream in queue]
            source.resume({int(cursor["index"]): cursor.get("at") for cursor in cursors})
            shedding = shedding_of(app.stream(stream), source)
            first = self._earliest(stream, queues)
            self._arrivals[stream] = StreamArrivals(stream, source, shedding, first, clock)
        self._polls = StreamPolls(self._arrivals.values(), at_most, clock)
        names = [task.name for task in self._tasks]
        self._names, self._owners = names, [task_of(name) for name in names]
        self._deadlines_us = [task.deadline_us for task in self._tasks]
        self._queues = LiveQueues(names, self._arrivals)
        streams = [list(queues[n]) for n in names]
        self._due = DueTasks(names, streams, self._arrivals, self._lateness_us, tick_us, self._sends, self._queues)
        self._arrived_for: set[int] = set()  # tasks that have got tuples since the last decision
        self._waits = 0  # tuples that the policy has, over all tasks
        self._shed = [0] * len(self._tasks)  # tuples that the policy shed, not in an offset yet
        self._buffers = [{s: n for s in queues[t.name] if (n := app.stream(s).buffer) is not None} for t in self._tasks]
        self._evicted: list[dict[str, int]] = [{} for _ in self._tasks]  # no room in BUFFER, not in an offset yet
        # The batch that runs: seq, when it was admitted, (task, tuples) per grant, arrival times per grant.
        self._running: tuple[int, int, list[tuple[int, int]], list[Times]] | None = None
        self._closed_at_us: int | None = None
        self._batches = 0

    def _start(self, app: App, name: str, settings: PolicySettings, queues: dict[str, Cursors]) -> None:
        self.policy: Policy = make_policy(name, self._scheduled(self._tasks), settings)

    def _scheduled(self, tasks: Sequence[Task]) -> list[ScheduledTask]:
        return [scheduled(task, self._step_us[task_of(task.name)]) for task in tasks]

    @property
    def _cost_model(self) -> Any:
        return getattr(self.policy, "costs")  # noqa: B009 - every policy has one

    # --- events ----------------------------------------------------------------------------------------------------

    def arrived(self, now_us: int, queues: dict[str, Cursors]) -> None:
        """Reports to the policy what has arrived since the last call."""
        tasks: list[int] = []
        parts: list[Times] = []
        for stream, (offsets, at_us) in self._poll(now_us, queues).items():
            for index in self._readers[stream]:
                cursor = queues[self._names[index]][stream]["index"]
                # After a restart, tasks have different cursors, and several polls may be needed to pass all of them.
                mine = at_us if cursor <= offsets[0] else at_us[offsets >= cursor]
                tasks.append(index)
                parts.append(mine)
        if tasks:
            self._feed(np.repeat(tasks, [len(part) for part in parts]), np.concatenate(parts))

    def _poll(self, now_us: int, queues: dict[str, Cursors]) -> dict[str, tuple[Times, Times]]:
        """Polls the streams. Returns offsets and arrival times per stream that has something new."""
        new = self._polls.poll(now_us, lambda stream: self._earliest(stream, queues), self._stream_ended)
        for stream in new:
            self._arrived_for.update(self._readers[stream])
        return new

    def _stream_ended(self, stream: str) -> None:
        self._due.look_at(self._readers[stream])

    def _feed(self, tasks: Times, at_us: Times) -> None:
        """Reports arrivals in slots, for all tasks in one call. The key of a slot is (slot, task)."""
        self._waits += len(at_us)
        size = len(self._tasks)
        keys, counts = np.unique(at_us // FEED_US * size + tasks, return_counts=True)
        slots, owners = np.divmod(keys, size)
        self.policy.arrived_many(owners, counts.astype(np.int64), (slots * FEED_US).astype(np.float64))

    def completed(self, seq: int, now_us: int, committed: Committed) -> None:
        """Learns from batch `seq`, which is complete: Spark asks for the next one."""
        if self._running is None or self._running[0] != seq:
            return
        _, admitted_us, grants, arrivals = self._running
        self._running = None
        finished_us = committed.at_us if committed.seq == seq else now_us
        missed = 0
        for (index, _), times in zip(grants, arrivals, strict=True):
            deadline_us = self._deadlines_us[index]
            if deadline_us is not None and len(times) and times[0] < finished_us - deadline_us:
                missed += int(times.searchsorted(finished_us - deadline_us))
        if grants:
            elapsed_us = now_us - admitted_us if committed.elapsed_us is None else committed.elapsed_us
            parts = committed.task_us
            measured = None if parts is None else [parts.get(self._owners[index], 0.0) for index, _ in grants]
            self._learn(
                Completion(float(finished_us), float(elapsed_us), grants, missed, measured, committed.recording_us)
            )
        self._batches += 1
        if self._costs_file is not None and self._batches % _SAVE_EVERY == 1:
            replace(self._costs_file, json.dumps(self._cost_model.to_json()).encode())

    def _learn(self, done: Completion) -> None:
        self.policy.completed(done)

    # --- decisions -------------------------------------------------------------------------------------------------

    def next(
        self, seq: int, now_us: int, queues: dict[str, Cursors], committed: Committed, closing: bool
    ) -> dict[str, TaskInput]:
        """Decides the input of each task in batch `seq` and moves the cursors in `queues`. Empty: no batch is due."""
        if closing and self._closed_at_us is None:
            self._closed_at_us = now_us
        arrived_us = now_us if self._closed_at_us is None else self._closed_at_us
        self.arrived(arrived_us, queues)
        self._evict(queues)
        self._arrived_for.clear()
        grants = self._decide(now_us)
        self._due.note_events(committed.next_events_us)
        must = self._due.find(arrived_us, queues, self._closed_at_us is not None, self._removed, grants)
        due = self._with_dependents(sorted(must.union(grants)))
        taken: dict[str, TaskInput] = {}
        times: list[Times] = []
        for index in due:
            queue = self._queues.of(index, queues)
            mine = taken[self._names[index]] = self._take(index, queue, grants.get(index, 0), closing)
            if index in grants:
                times.append(mine.arrivals if len(queue.cursors) == 1 else np.sort(mine.arrivals))
        self._due.look_at(due)
        if taken:
            self._running = seq, now_us, [(i, count_of(grants[i])) for i in due if i in grants], times
            for stream in {stream for name in taken for stream in queues[name]}:
                if self._arrivals[stream].count > _KEPT_TUPLES:
                    self._arrivals[stream].forget_before(self._earliest(stream, queues))
        return taken

    def _decide(self, now_us: int) -> dict[int, Admit]:
        decision = self.policy.next(float(now_us))
        for index, count in decision.drop:
            self._shed[index] += count
            self._waits -= count
        self._waits -= sum(count for _, count in decision.admit)
        return dict(decision.admit)

    def idle_until_us(self, now_us: int, queues: dict[str, Cursors], events: Events | None = None) -> int | None:
        """Returns the earliest time at which `next` could return something if nothing unforeseen arrives.

        `events` are known since the last decision (`DueTasks.note_events`).

        Counts the next arrivals that sources know, and the times at which watermarks reach a task's next event or the
        tick of what it sends. Arrivals at other sources are unforeseen (`foresees_arrivals`). None: no time is known.
        """
        if self._has_waiting():
            return now_us
        self._due.note_events(events or {})
        times = [self._polls.next_us(now_us), self._due.earliest_us(now_us, queues, self._removed)]
        known = [at for at in times if at is not None and at != FOREVER]
        return max(now_us, min(known)) if known else None

    @property
    def foresees_arrivals(self) -> bool:
        """Returns whether every source knows its next arrival, or calls when it comes (`call_on_news`)."""
        return self._polls.foreseen

    @property
    def awaits_watermarks(self) -> bool:
        """Returns whether a task waits for a watermark, and nobody knows when it comes. Ask after `idle_until_us`."""
        return self._due.is_looking

    def call_on_news(self, call: Callable[[], None]) -> None:
        """Asks the sources to call when something has arrived. Call it before anything else."""
        self._polls.call_on_news(call)

    def _has_waiting(self) -> bool:
        return self._waits > 0

    def _with_dependents(self, due: list[int]) -> list[int]:
        """Adds the tasks that must be in a batch if these are."""
        return due

    def _take(self, index: int, queue: TaskQueue, admit: Admit, closing: bool) -> TaskInput:
        """Takes the input of a task from its queue, with what is dropped. `closing`: nothing comes any more."""
        last = closing and len(queue) == self._removed(index) + count_of(admit)
        taken = queue.take(self._shed[index], admit, last, self._evicted[index])
        self._shed[index] = 0
        if self._evicted[index]:
            self._evicted[index] = {}
        return taken

    def _evict(self, queues: dict[str, Cursors]) -> None:
        """Drops the oldest tuples that a stream's BUFFER has no room for, separately for each task that reads it.

        In a drain (`may_drop` False) there are no live tuples to bound.
        """
        for index in sorted(self._arrived_for):
            buffers = self._buffers[index]
            if not buffers:
                continue
            queue, gone = self._queues.of(index, queues), self._evicted[index]
            for stream, room in buffers.items():
                beyond = min(queue.waiting(stream) - gone.get(stream, 0) - room, len(queue) - self._removed(index))
                if beyond > 0:
                    gone[stream] = gone.get(stream, 0) + beyond
                    self._waits -= beyond
                    self.policy.evict(index, beyond)

    def _removed(self, index: int) -> int:
        return self._shed[index] + sum(self._evicted[index].values())

    def _earliest(self, stream: str, queues: dict[str, Cursors]) -> int:
        return min((queues[self._tasks[i].name][stream]["index"] for i in self._readers[stream]), default=0)

    def costs(self) -> dict[str, Any]:
        """Returns what was learnt of costs, as the costs file has it."""
        found: dict[str, Any] = self._cost_model.to_json()
        return found

    def can_pause(self, now_us: int, pause_us: float) -> bool:
        """Whether no deadline is missed because nothing runs for so long."""
        return self.policy.can_pause(float(now_us), pause_us)

    def report(self) -> dict[str, Any]:
        """Returns a report for the command: what waits, the state of the policy, and the costs."""
        waiting = {task.name: self.policy.pending(i) for i, task in enumerate(self._tasks)}
        return {**self.policy.report(), "waiting": waiting}


def count_of(admit: Admit) -> int:
    """Returns how many tuples are admitted."""
    return admit if isinstance(admit, int) else sum(read for runs in admit.values() for _, read in runs)
