"""Admission of slices: decides what one round runs, over all tasks.

Each task has its own policy over (range of tuples, slice) units. A task whose join cannot be sliced has one slice.
While work waits, a round should be so long that what it costs beside its tuples (f, and A of each task) is a twentieth
of it, and a hundredth while tuples are dropped, since then that time is missing; but at most one second, a quarter of
the time in which the smallest BUFFER fills, and so short that two rounds fit into the shortest deadline; or as long as
the user says. While tuples are dropped and all tasks have chosen the order of arrival, a round takes what waits, as
`fifo` does: then no window gains by short rounds. Tasks with work share what is left for tuples evenly. Costs
are what workers report (`slice_costs`). The order of slices is by window lengths, as the policies define it; `salvage`
goes by costs. What deadlines make due within the next two rounds goes first (`due_slices`). Pure: no clock, no I/O.
Invariant: each slice of each tuple is admitted once, in the order of windows, or given up. Cost: some microseconds per
unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kigen.plan.shared_joins.window_hull import WindowHull, window_hull
from kigen.schedule.policies import PolicyError, PolicySettings
from kigen.schedule.policy_interface import Floats, Grant, ScheduledTask
from kigen.schedule.slices.mandf import AdMandF, MandF
from kigen.schedule.slices.orders import Mqt
from kigen.schedule.slices.salvage import AHEAD, Salvage
from kigen.schedule.slices.slice_costs import SliceCosts
from kigen.schedule.slices.slice_interface import SlicePolicy, Unit
from kigen.schedule.slices.stream_rates import StreamRates

ADMITTED_NAMES = ("mqt", "mandf", "admandf", "salvage")  # `fifo` needs no slices: a tuple runs all its slices at once
WHOLE = window_hull((1.0,))  # hull of a task that is not sliced
_LENGTH, _LONGEST_US = 20.0, 1e6  # length of a round in costs beside its tuples, and its limit
_OVERLOADED = 100.0  # its length in costs beside its tuples, while tuples are dropped
_FILL = 0.25  # share of the time in which the smallest buffer fills
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
        # index of each task's first cost
        self._first = [sum(len(before.slices) for before in tasks[:place]) for place in range(len(tasks))]
        self.costs = SliceCosts([task.slices for task in tasks], self._settings)
        self._rates = [StreamRates(len(task.buffers)) for task in tasks]
        deadlines = [queue.deadline_us for task in tasks for queue in task.slices if queue.deadline_us is not None]
        self._shortest_us = min(deadlines, default=math.inf)
        self._given: dict[int, list[Grant]] = {}  # per task of the running round: tuples of each slice
        self._work: dict[int, float] = {}
        self._lost = 0  # queries on tuples that were dropped or given up, over all tasks
        self._overloaded = False  # tuples were dropped lately
        self._lost_before, self._lost_us = 0, -math.inf  # at the last decision, and when it last grew

    def _policy(self, task: SlicedTask) -> SlicePolicy:
        s = self._settings
        if self.name not in ADMITTED_NAMES:
            raise PolicyError(
                f"the policy '{self.name}' does not admit slices: write one of {', '.join(ADMITTED_NAMES)}"
            )
        policy: SlicePolicy
        if self.name == Mqt.name or (self.name == Salvage.name and len(task.slices) == 1):
            policy = Mqt(task.hull, task.buffers)  # a single slice is never refused for another one
        elif self.name == Salvage.name:
            policy = Salvage(task.hull, task.buffers, AHEAD if s.ahead is None else s.ahead, s.period_us)
            policy.forward_only = True
        else:
            ahead = 1.0 if s.ahead is None else s.ahead
            policy = (MandF if self.name == MandF.name else AdMandF)(
                task.hull, task.buffers, s.beta, s.period_us, ahead
            )
        policy.set_deadlines([queue.deadline_us for queue in task.slices])
        return policy

    def arrived(self, task: int, stream: int, count: int, level: int = 0, at_us: float = 0.0) -> None:
        """Adds `count` tuples of a stream, in the order of arrival over the task's streams.

        `level` slices have run on them; all of them: they are done, or given up.
        """
        self._policies[task].arrived(stream, count, level, at_us)
        self._rates[task].arrived(stream, count)

    def evicted(self, task: int, stream: int, count: int) -> list[int]:
        """Removes the oldest `count` tuples that wait for any slice. Returns how many of them each slice had not run
        on.
        """
        lost = self._policies[task].evicted(stream, count)
        self._lost += sum(lost)
        return lost

    def waiting(self, task: int, stream: int) -> tuple[int, int]:
        """Returns the first and the end of the tuples of a stream that wait for any slice, counted from the first that
        ever arrived.
        """
        lane = self._policies[task].backlog.lanes[stream]
        return lane.first, lane.end

    def given_up(self, task: int) -> list[int]:
        """Returns how many tuples each slice has passed by so far, because the policy refused them."""
        return self._policies[task].given_up

    def completed(
        self, elapsed_us: float, parts_us: Mapping[int, float] | None = None, recording_us: float = 0.0
    ) -> None:
        """Takes in that the round of the last decision is done. `parts_us` is what workers spent on each task,
        `recording_us` how long it takes from there until results count as delivered.
        """
        for policy in self._policies:
            policy.recording_us = recording_us
        if self._given:
            self.costs.observe(self._given, elapsed_us, parts_us)
        for task, work in self._work.items():
            self._policies[task].completed(work, elapsed_us)
        self._given, self._work = {}, {}

    def can_pause(self, now_us: float, pause_us: float) -> bool:
        """Returns whether a pause makes nothing late that waits: here, whether nothing with a deadline waits."""
        limited = (any(queue.deadline_us is not None for queue in task.slices) for task in self.tasks)
        return not any(some and self.pending(place) for place, some in enumerate(limited))

    def next(self, now_us: float) -> dict[int, list[Unit]]:
        """Decides what runs now, per task. Tuples that have run all their slices no longer wait."""
        self._given, self._work = {}, {}
        for rates in self._rates:
            rates.measure(now_us)
        self._notice_drops(now_us)
        waiting = [task for task in range(len(self.tasks)) if self.pending(task)]
        every_us = self.costs.costs_us
        for task in waiting:
            self._policies[task].look(now_us, self._own_us(task, every_us))
        self._overloaded = self._lost_before > 0 and now_us - self._lost_us <= self._fill_us()
        length_us, beside_us = self.length_us(waiting), self._beside_us(waiting)
        left_us = max(length_us - beside_us, beside_us)
        units: dict[int, list[Unit]] = {}
        for place, task in enumerate(waiting):
            slices = len(self.tasks[task].slices)
            costs_us, budget_us = self._own_us(task, every_us), left_us / (len(waiting) - place)
            mine = self._policies[task].next(now_us, max(budget_us, 0.0), costs_us, 2 * length_us)
            units[task], self._work[task] = mine, sum(unit.work for unit in mine)
            left_us -= self._work[task]
            counts = [sum(unit.count for unit in mine if unit.low <= at < unit.high) for at in range(slices)]
            self._given[task] = [(at, count) for at, count in enumerate(counts) if count]
            self._forget_done(self._policies[task])
        return units

    def _own_us(self, task: int, every_us: Floats) -> list[float]:
        """Returns the costs per tuple of a task's slices."""
        first = self._first[task]
        own_us: list[float] = every_us[first : first + len(self.tasks[task].slices)].tolist()
        return own_us

    def _notice_drops(self, now_us: float) -> None:
        lost = self._lost + sum(sum(policy.given_up) for policy in self._policies)
        if lost > self._lost_before:
            self._lost_before, self._lost_us = lost, now_us

    def _beside_us(self, tasks: Sequence[int]) -> float:
        """Returns what a round of these tasks costs beside its tuples."""
        return self.costs.fixed_us + sum(self.costs.task_us(task) for task in tasks)

    def length_us(self, waiting: Sequence[int] | None = None) -> float:
        """Returns how long a round of the tasks that wait should take, if there is enough to do."""
        beside_us = self._beside_us(range(len(self.tasks)) if waiting is None else waiting)
        if self._settings.length_us is not None:
            return max(self._settings.length_us, 2 * beside_us)
        in_time_us = (1 - _SLACK) * self._shortest_us / 2
        if self._overloaded and waiting and not any(self._policies[task].gains_by_short_rounds for task in waiting):
            return max(in_time_us, 2 * beside_us)
        longest_us = min(_LONGEST_US, _FILL * self._fill_us(), in_time_us)
        return max(min((_OVERLOADED if self._overloaded else _LENGTH) * beside_us, longest_us), 2 * beside_us)

    def _fill_us(self) -> float:
        """Returns the time in which the first buffer fills, at the measured rates."""
        filling = (
            buffer / rate
            for task, rates in zip(self.tasks, self._rates, strict=True)
            for buffer, rate in zip(task.buffers, rates.now.tolist(), strict=True)
            if buffer is not None and rate > 0
        )
        return min(filling, default=math.inf)

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
