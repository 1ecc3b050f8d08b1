"""Drives policies under a virtual clock as Spark drives them in rounds: lanes side by side, in epochs with gaps.

A round costs `fixed_us`, `task_us` for each task in it, and the true costs of its tuples; results come at its end. Each
lane has tasks of its own, dealt by load, and a policy of its own. An epoch ends for all lanes at once, when it is long
enough and every policy allows the gap, or when `patience_us` more have passed. In the gap nothing runs. Costs vary by
`jitter`, relative and uniform; now and then a round is `stall` times as long in its fixed part, as on a real machine.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kigen.schedule import Completion, Decision, Policy, ScheduledTask
from kigen_lab.simulate.deadlines.workload import Workload

MakePolicy = Callable[[Sequence[ScheduledTask]], Policy]
_DRAWS = 1 << 14


@dataclass(frozen=True)
class RoundCosts:
    """What rounds cost, and how long epochs are. Without `epoch_us` there is one epoch, and no gap."""

    fixed_us: float = 2_000.0
    task_us: float = 500.0
    jitter: float = 0.3
    stall: float = 10.0
    stalls: float = 0.002  # share of rounds that stall
    epoch_us: float | None = 30e6
    gap_us: float = 200_000.0
    patience_us: float = 5e6
    measured: bool = True  # workers report what each task took


@dataclass(frozen=True)
class RoundsOutcome:
    """Counts and times of a run, over all lanes."""

    tuples: int
    missed: int  # late or dropped
    dropped: int
    late_by_gap: int  # of those, missed with an arrival within a gap or less than a deadline before it
    rounds: int
    epochs: int
    busy_us: float
    fixed_us: float  # of `busy_us`: cost of rounds and of tasks in them
    in_time_us: float  # true cost of the tuples whose results came in time
    span_us: float  # of all lanes together
    classes: dict[float, tuple[int, int]]  # deadline in seconds: (missed, tuples)
    latency_us: tuple[float, float]  # median and 99 % of the tuples that ran

    @property
    def sdmr(self) -> float:
        return self.missed / self.tuples

    @property
    def in_time(self) -> float:
        """Results in time, as a share of what the lanes can do."""
        return self.in_time_us / self.span_us

    def sdmr_of(self, deadline_s: float) -> float:
        missed, tuples = self.classes[deadline_s]
        return missed / tuples


class _Lane:
    """A processor with its tasks and its policy."""

    def __init__(self, workload: Workload, tasks: list[int], policy: Policy, costs: RoundCosts, seed: int) -> None:
        self.policy, self._costs, self._tasks = policy, costs, tasks
        rank = np.full(len(workload.tasks), -1)
        rank[tasks] = np.arange(len(tasks))
        mine = rank[workload.owners] >= 0
        self._times_us, self._owners = workload.times_us[mine], rank[workload.owners[mine]]
        self.arrivals = self._times_us.tolist()
        self._task_times = [workload.task_times[task].tolist() for task in tasks]
        self._task_work = [workload.task_work[task].tolist() for task in tasks]
        self._deadlines = [float(workload.tasks[task].deadline_us or np.inf) for task in tasks]
        rng = np.random.default_rng([seed, 1])
        low, high = 1 - costs.jitter, 1 + costs.jitter
        slow = np.where(rng.random(_DRAWS) < costs.stalls, costs.stall, 1.0)
        self._fixed = (rng.uniform(low, high, _DRAWS) * slow * costs.fixed_us).tolist()
        self._part = rng.uniform(low, high, _DRAWS).tolist()
        self._heads = [0] * len(tasks)
        self._fed = self._draw = 0
        self.now_us = 0.0  # when the lane asks again
        self.rounds = self.dropped = 0
        self.busy_us = self.fixed_us = self.in_time_us = 0.0
        self.missed = [0] * len(tasks)
        self.late: list[float] = []  # arrivals of missed tuples
        self.latencies: list[float] = []  # of the oldest and newest tuple of each grant

    def feed(self, now_us: float) -> None:
        first, end = self._fed, bisect_right(self.arrivals, now_us, self._fed)
        if end > first:
            self._fed = end
            ones = np.ones(end - first, np.int64)
            self.policy.arrived_many(self._owners[first:end], ones, self._times_us[first:end])

    def step(self) -> bool:
        """Asks for a round and runs it. Returns False if the lane has nothing left to do."""
        decision = self.policy.next(self.now_us)
        for task, count in decision.drop:
            self._miss(task, self._heads[task], count)
            self._heads[task] += count
            self.dropped += count
        if decision.admit:
            self._run(decision)
        elif self._fed < len(self.arrivals):
            self.now_us = self.arrivals[self._fed]
        else:
            return False
        return True

    def _miss(self, task: int, first: int, count: int) -> None:
        self.missed[task] += count
        self.late += self._task_times[task][first : first + count]

    def _run(self, decision: Decision) -> None:
        fixed_us, parts = self._fixed[self.rounds % _DRAWS], []
        for task, count in decision.admit:
            head, work = self._heads[task], self._task_work[task]
            own_us = self._costs.task_us * self._part[self._draw % _DRAWS]
            self._draw += 1
            parts.append(own_us + work[head + count] - work[head])
            self.fixed_us += own_us
        elapsed_us = fixed_us + sum(parts)
        end_us, late = self.now_us + elapsed_us, 0
        for task, count in decision.admit:
            head, work, times = self._heads[task], self._task_work[task], self._task_times[task]
            behind = bisect_left(times, end_us - self._deadlines[task], head, head + count) - head
            if behind:
                late += behind
                self._miss(task, head, behind)
            self.in_time_us += work[head + count] - work[head + behind]
            self._heads[task] = head + count
            self.latencies += (end_us - times[head], end_us - times[head + count - 1])
        self.rounds += 1
        self.fixed_us += fixed_us
        self.busy_us += elapsed_us
        self.now_us = end_us
        self.policy.completed(
            Completion(end_us, elapsed_us, decision.admit, late, parts if self._costs.measured else None)
        )


def deal(workload: Workload, lanes: int) -> list[list[int]]:
    """Deals tasks to lanes by load: the shortest deadlines first, each to the lane with the least so far."""
    loads = [0.0] * lanes
    dealt: list[list[int]] = [[] for _ in range(lanes)]
    work = [float(own[-1]) for own in workload.task_work]
    deadlines = [task.deadline_us or np.inf for task in workload.tasks]
    for task in sorted(range(len(work)), key=lambda task: (deadlines[task], -work[task], task)):
        lane = loads.index(min(loads))
        loads[lane] += work[task]
        dealt[lane].append(task)
    return [sorted(tasks) for tasks in dealt]


def simulate_rounds(
    workload: Workload, make: MakePolicy, costs: RoundCosts, lanes: int = 2, seed: int = 0
) -> RoundsOutcome:
    """Runs policies over the whole workload."""
    dealt = deal(workload, lanes)
    running = [
        _Lane(workload, tasks, make([workload.tasks[task] for task in tasks]), costs, seed + place)
        for place, tasks in enumerate(dealt)
    ]
    active, gaps = list(running), []
    ends_us = np.inf if costs.epoch_us is None else costs.epoch_us
    while active:
        lane = min(active, key=lambda lane: lane.now_us)
        now_us = lane.now_us
        lane.feed(now_us)
        if now_us >= ends_us and _may_end(running, now_us, ends_us + costs.patience_us, costs.gap_us):
            begin_us = max(lane.now_us for lane in active)  # the others finish their rounds
            gaps.append(begin_us)
            for other in running:
                other.now_us = begin_us + costs.gap_us
            ends_us = begin_us + costs.gap_us + float(costs.epoch_us or 0.0)
        elif not lane.step():
            active.remove(lane)
    return _outcome(workload, dealt, running, gaps, costs)


def _may_end(lanes: Sequence[_Lane], now_us: float, limit_us: float, gap_us: float) -> bool:
    if now_us >= limit_us:
        return True
    for lane in lanes:
        lane.feed(now_us)
    return all(lane.policy.can_pause(now_us, gap_us + max(0.0, lane.now_us - now_us)) for lane in lanes)


def _outcome(
    workload: Workload, dealt: list[list[int]], lanes: list[_Lane], gaps: list[float], costs: RoundCosts
) -> RoundsOutcome:
    classes: dict[float, tuple[int, int]] = {}
    by_gap = 0
    for tasks, lane in zip(dealt, lanes, strict=True):
        for task, missed in zip(tasks, lane.missed, strict=True):
            key = float(workload.tasks[task].deadline_us or 0.0) / 1e6
            before = classes.get(key, (0, 0))
            classes[key] = before[0] + missed, before[1] + len(workload.task_times[task])
        late = np.array(lane.late)
        for begin_us in gaps:
            by_gap += int(((late > begin_us - 500_000.0) & (late < begin_us + costs.gap_us)).sum())
    span_us = len(lanes) * max(max(lane.now_us for lane in lanes), float(workload.times_us[-1]))
    latencies = np.concatenate([lane.latencies for lane in lanes])
    return RoundsOutcome(
        tuples=workload.size,
        missed=sum(sum(lane.missed) for lane in lanes),
        dropped=sum(lane.dropped for lane in lanes),
        late_by_gap=by_gap,
        rounds=sum(lane.rounds for lane in lanes),
        epochs=len(gaps) + 1,
        busy_us=sum(lane.busy_us for lane in lanes),
        fixed_us=sum(lane.fixed_us for lane in lanes),
        in_time_us=sum(lane.in_time_us for lane in lanes),
        span_us=span_us,
        classes=dict(sorted(classes.items())),
        latency_us=(float(np.percentile(latencies, 50)), float(np.percentile(latencies, 99))),
    )
