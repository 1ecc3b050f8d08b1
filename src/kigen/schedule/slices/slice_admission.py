"""Admission of slices: decides what one batch runs, over all tasks.

Each task has its own policy over (range of tuples, slice) units. A task whose join cannot be sliced has one slice. A
batch should take `length` in all: five fixed costs, so that they are a fifth of the time, but at most one second, and
so short that two batches fit into the shortest deadline; or as long as the user says. Tasks with work share what is
left after the fixed cost evenly. The cost of each slice per tuple is learnt from the lengths of batches
(`kigen.schedule.cost_model`); the order of slices is by window lengths, as the policies define it. Pure: no clock, no
I/O. Invariant: each slice of each tuple is admitted once, in the order of windows. Cost: some microseconds per unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kigen.plan.shared_joins.window_hull import WindowHull, window_hull
from kigen.schedule.cost_model import CostModel
from kigen.schedule.policies import PolicyError, PolicySettings
from kigen.schedule.policy_interface import Grant, ScheduledTask
from kigen.schedule.slices.mandf import AdMandF, MandF
from kigen.schedule.slices.orders import Mqt
from kigen.schedule.slices.slice_interface import SlicePolicy, Unit

ADMITTED_NAMES = ("mqt", "mandf", "admandf")  # `fifo` needs no slices: a tuple runs all its slices at once
WHOLE = window_hull((1.0,))  # hull of a task that is not sliced
_LENGTH, _LONGEST_US = 5.0, 1e6  # length of a batch in fixed costs, and its limit
_SLACK = 0.04  # share of the shortest deadline


@dataclass(frozen=True)
class SlicedTask:
    """A task as admission sees it. `slices` are its queues, one per slice, with first guesses of the cost per tuple."""

    slices: tuple[ScheduledTask, ...]
    buffers: tuple[int | None, ...]  # per stream
    hull: WindowHull = WHOLE


class SliceAdmission:
    """Admits units of all tasks into batches."""

    def __init__(self, name: str, tasks: Sequence[SlicedTask], settings: PolicySettings | None = None) -> None:
        self.name, self.tasks, self._settings = name, tuple(tasks), settings or PolicySettings()
        self._policies = [self._policy(task) for task in tasks]
        scheduled = [queue for task in tasks for queue in task.slices]
        # index of each task's first cost
        self._first = [sum(len(before.slices) for before in tasks[:place]) for place in range(len(tasks))]
        s = self._settings
        self.costs = CostModel(scheduled, s.fixed_us, s.learning, s.doubt, s.task_us or 0.0)
        deadlines = [task.deadline_us for task in scheduled if task.deadline_us is not None]
        self._shortest_us = min(deadlines, default=math.inf)
        self._given: list[Grant] = []  # tuples of each slice in the running batch

    def _policy(self, task: SlicedTask) -> SlicePolicy:
        s = self._settings
        if self.name == Mqt.name:
            return Mqt(task.hull, task.buffers)
        if self.name not in ADMITTED_NAMES:
            raise PolicyError(
                f"the policy '{self.name}' does not admit slices: write one of {', '.join(ADMITTED_NAMES)}"
            )
        return (MandF if self.name == MandF.name else AdMandF)(task.hull, task.buffers, s.beta, s.period_us, s.ahead)

    def arrived(self, task: int, stream: int, count: int, level: int = 0) -> None:
        """Adds `count` tuples of a stream, in the order of arrival over the task's streams. `level` slices have run on
        them.
        """
        self._policies[task].arrived(stream, count, level)

    def evicted(self, task: int, stream: int, count: int) -> list[int]:
        """Removes the oldest `count` tuples that wait for any slice. Returns how many of them each slice had not run
        on.
        """
        return self._policies[task].evicted(stream, count)

    def completed(
        self,
        elapsed_us: float,
        admitted: Sequence[Grant] | None = None,
        task_elapsed_us: Sequence[float] | None = None,
    ) -> None:
        """Takes in that the batch of the last decision is done.

        `task_elapsed_us` is what the worker spent on each grant of `admitted`, whose tasks are numbered as the queues
        of all slices are: those of the first task, then those of the second, and so on.
        """
        if task_elapsed_us is not None and admitted:
            self.costs.observe(admitted, elapsed_us, task_elapsed_us)
        elif self._given:
            self.costs.observe(self._given, elapsed_us)

    def can_pause(self, now_us: float, pause_us: float) -> bool:
        """Returns whether a pause makes nothing late that waits: here, whether nothing with a deadline waits."""
        limited = (any(queue.deadline_us is not None for queue in task.slices) for task in self.tasks)
        return not any(some and self.pending(place) for place, some in enumerate(limited))

    def next(self, now_us: float) -> dict[int, list[Unit]]:
        """Decides what runs now, per task. Tuples that have run all their slices no longer wait."""
        self._given = []
        left_us = max(self.length_us() - self.costs.fixed_us, self.costs.fixed_us)
        waiting = [task for task in range(len(self.tasks)) if self.pending(task)]
        units: dict[int, list[Unit]] = {}
        for place, task in enumerate(waiting):
            first, slices = self._first[task], len(self.tasks[task].slices)
            costs_us = self.costs.costs_us[first : first + slices].tolist()
            units[task] = self._policies[task].next(now_us, max(left_us, 0.0) / (len(waiting) - place), costs_us)
            left_us -= sum(unit.work for unit in units[task])
            counts = [sum(unit.count for unit in units[task] if unit.low <= at < unit.high) for at in range(slices)]
            self._given += [(first + at, count) for at, count in enumerate(counts) if count]
            self._forget_done(self._policies[task])
        return units

    def length_us(self) -> float:
        """Returns how long a batch should take, the fixed cost included."""
        fixed_us = self.costs.fixed_us
        if self._settings.length_us is not None:
            return max(self._settings.length_us, 2 * fixed_us)
        return max(min(_LENGTH * fixed_us, _LONGEST_US, (1 - _SLACK) * self._shortest_us / 2), 2 * fixed_us)

    @staticmethod
    def _forget_done(policy: SlicePolicy) -> None:
        """Removes the tuples that have run all slices."""
        for stream in range(len(policy.backlog.lanes)):
            done = policy.backlog.done(stream)
            if done:
                policy.evicted(stream, done)

    def pending(self, task: int) -> int:
        """Returns how many tuples wait for at least one slice."""
        return sum(lane.end - lane.first for lane in self._policies[task].backlog.lanes)

    def report(self) -> dict[str, Any]:
        reports = [policy.report() for policy in self._policies]
        orders = {
            task.slices[0].name: mine["order"]
            for task, mine in zip(self.tasks, reports, strict=True)
            if "order" in mine
        }
        return {"policy": self.name, "length_us": self.length_us(), "orders": orders, "costs": self.costs.report()}
