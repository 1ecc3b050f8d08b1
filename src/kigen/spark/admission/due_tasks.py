"""Finds the tasks that must run without tuples: a known death has passed, their watermark is awaited, or a stream ends.

A task is looked at again only when that may have changed: its next event is another one, its cursors moved, one of its
streams ended, or the time has come at which its watermark reaches the event. Tasks with a stream whose clock is not
known in advance are looked at in every round. Invariant: the result is that of looking at every task in every round.
Cost: proportional to the tasks looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kigen.spark.admission.live_queues import Cursors, LiveQueues, TaskQueue, task_of
from kigen.spark.admission.stream_arrivals import StreamArrivals
from kigen.spark.admission.wake_times import WakeTimes

_KEPT_WATERMARKS = 4096  # rows without tuples that a queue may hold before the task runs over them
Events = Mapping[str, int | None]  # task -> when the passing of time will change a result


class DueTasks:
    """Tasks of a run, by index, that must run although no tuple is admitted for them."""

    def __init__(
        self,
        names: Sequence[str],
        streams: Sequence[Sequence[str]],
        arrivals: dict[str, StreamArrivals],
        lateness_us: dict[str, int],
        tick_us: int | None,
        sends: set[str],
        queues: LiveQueues,
    ) -> None:
        """`sends` has the tasks whose watermark other nodes wait for, for at most `tick_us`."""
        self._count, self._queues, self._lateness_us = len(names), queues, lateness_us
        self._tick_us = [tick_us if name in sends else None for name in names]
        self._with_watermark_rows = [any(arrivals[s].source.has_watermark_rows for s in mine) for mine in streams]
        self._of_task: dict[str, list[int]] = {}  # without slices: one index per task
        for index, name in enumerate(names):
            self._of_task.setdefault(task_of(name), []).append(index)
        self._event_us: list[int | None] = [None] * len(names)
        self._look = set(range(len(names)))  # tasks to look at in the next round
        self._wakes = WakeTimes()

    @property
    def is_looking(self) -> bool:
        """Whether a task is looked at in the next round, because nobody knows when it must run."""
        return bool(self._look)

    def note_events(self, events: Events) -> None:
        """Takes in when the passing of time will change a result of these tasks. Others keep what is known of them."""
        for task, event_us in events.items():
            for index in self._of_task.get(task, ()):
                if self._event_us[index] != event_us:
                    self._event_us[index] = event_us
                    self._look.add(index)

    def look_at(self, tasks: Iterable[int]) -> None:
        """Looks at tasks in the next round: their cursors moved, or a stream of theirs ended."""
        self._look.update(tasks)

    def find(
        self,
        now_us: int,
        queues: Mapping[str, Cursors],
        closed: bool,
        removed: Callable[[int], int],
        running: Iterable[int] = (),
    ) -> set[int]:
        """Returns the tasks that must run now, beside those of `running`, which run anyway and are looked at after it.

        `removed` returns how many waiting tuples of a task are not read.
        """
        looked = set(range(self._count)) if closed else self._look.union(self._wakes.take_due(now_us))
        looked.difference_update(running)
        self._look = set()
        due = set()
        for index in looked:
            queue = self._queues.of(index, queues)
            if queue.over:
                self._wakes.clear(index)
            elif self._is_due(index, now_us, queue, closed, removed):
                due.add(index)
        return due

    def earliest_us(self, now_us: int, queues: Mapping[str, Cursors], removed: Callable[[int], int]) -> int | None:
        """Returns when the passing of time alone makes a task due; None if no such time is known."""
        for index in list(self._look):
            queue = self._queues.of(index, queues)
            if queue.over:
                continue
            self._look.discard(index)
            if self._is_due(index, now_us, queue, False, removed):
                self._look.add(index)
                return now_us
        return self._wakes.earliest_us()

    def _is_due(self, index: int, now_us: int, queue: TaskQueue, closed: bool, removed: Callable[[int], int]) -> bool:
        """Checks whether a task must run now. If not, decides when it is looked at again."""
        ending = closed or queue.at_end()
        if ending and len(queue) == removed(index):
            return True
        if self._with_watermark_rows[index] and queue.passed > _KEPT_WATERMARKS:
            return True
        target_us = self._target_us(index, queue)
        if target_us is not None:
            reaches_us = queue.reaches_us(self._lateness_us)
            if (reaches_us is not None and reaches_us >= target_us) or queue.wants_step():
                return True
        if ending or self._with_watermark_rows[index]:
            self._look.add(index)
        else:
            self._plan(index, now_us, queue, target_us)
        return False

    def _target_us(self, index: int, queue: TaskQueue) -> int | None:
        """Returns the watermark at which the task must run; None: time alone never makes it run."""
        event_us, tick_us = self._event_us[index], self._tick_us[index]
        if event_us is None and tick_us is None:
            return None
        reached_us = queue.reached_us(self._lateness_us)
        if tick_us is not None:
            tick_at_us = _EVER if reached_us is None else reached_us + tick_us
            if event_us is None or (reached_us is not None and reached_us >= event_us):
                return tick_at_us
            return min(event_us, tick_at_us)
        return event_us if reached_us is None or (event_us is not None and reached_us < event_us) else None

    def _plan(self, index: int, now_us: int, queue: TaskQueue, target_us: int | None) -> None:
        self._wakes.clear(index)
        if target_us is None:
            return  # its next event or its cursors must change first
        at_us = queue.reaches_at_us(target_us, self._lateness_us)
        if at_us is None:
            self._look.add(index)
        elif at_us > now_us:
            self._wakes.set(index, at_us)
        elif not queue.halts_before(target_us, self._lateness_us):
            self._look.add(index)  # otherwise its cursors must move first


_EVER = -(2**62)  # a watermark that every known watermark has reached
