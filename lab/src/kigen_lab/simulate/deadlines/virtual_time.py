"""Drives a policy under a virtual clock: the same objects that Spark's admission drives under the real clock.

There is one processor. A decision's batch runs to its end and costs one overhead plus the true costs of its tuples;
results come at its end. The loop runs once per decision, and touches tuples only where the policy does. Policies over a
calendar get arrivals as arrays.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np

from kigen.schedule import Completion, Decision, Policy
from kigen_lab.simulate.deadlines.workload import Workload

_DRAWS = 1 << 14


@dataclass(frozen=True)
class Outcome:
    """Counts and times of a run."""

    tuples: int
    missed: int  # late or shed
    shed: int
    decisions: int
    overhead_us: float
    busy_us: float  # with overhead
    span_us: float  # until the last arrival or the last batch's end
    mean_k: float
    missed_by_task: tuple[int, ...] = ()

    @property
    def sdmr(self) -> float:
        return self.missed / self.tuples

    @property
    def cpu(self) -> float:
        return min(1.0, self.busy_us / self.span_us)


class _Run:
    """State of one run."""

    def __init__(self, workload: Workload, policy: Policy, overhead: bool, seed: int) -> None:
        self.workload, self.policy = workload, policy
        self._times = workload.times_us.tolist()
        self._owners = workload.owners.tolist()
        self._task_times = [times.tolist() for times in workload.task_times]
        self._task_work = [work.tolist() for work in workload.task_work]
        self._deadlines = [float("inf") if t.deadline_us is None else float(t.deadline_us) for t in workload.tasks]
        self._heads = [0] * len(workload.tasks)
        low, high = workload.overheads_us if overhead else (0.0, 0.0)
        self._draws = np.random.default_rng([seed, 1]).uniform(low, high, _DRAWS).tolist()
        self._fed = 0
        self._missed_by_task = [0] * len(workload.tasks)
        self.missed = self.shed = self.decisions = self.batches = 0
        self.overhead_us = self.busy_us = self.now_us = 0.0

    def go(self) -> Outcome:
        times, size, policy = self._times, len(self._times), self.policy
        while True:
            if self._fed < size and times[self._fed] <= self.now_us:
                self._feed()
            decision = policy.next(self.now_us)
            if decision.drop:
                self._let_go(decision)
            if decision.admit:
                self._execute(decision)
            elif self._fed < size:
                self.now_us = times[self._fed]
            else:
                break
        span_us = max(self.now_us, times[-1])
        mean_k = self.batches / self.decisions if self.decisions else 0.0
        by_task = tuple(self._missed_by_task)
        return Outcome(
            size, self.missed, self.shed, self.decisions, self.overhead_us, self.busy_us, span_us, mean_k, by_task
        )

    def _feed(self) -> None:
        first, end = self._fed, bisect_right(self._times, self.now_us, self._fed)
        self._fed = end
        if self.policy.fed_by_arrays:
            workload = self.workload
            self.policy.arrived_many(
                workload.owners[first:end], np.ones(end - first, np.int64), workload.times_us[first:end]
            )
            return
        arrived, owners, times = self.policy.arrived, self._owners, self._times
        for index in range(first, end):
            arrived(owners[index], 1, times[index])

    def _let_go(self, decision: Decision) -> None:
        for task, count in decision.drop:
            self._heads[task] += count
            self.shed += count
            self.missed += count
            self._missed_by_task[task] += count

    def _execute(self, decision: Decision) -> None:
        overhead_us = self._draws[self.decisions % _DRAWS]
        elapsed_us = overhead_us
        heads, late = self._heads, 0
        for task, count in decision.admit:
            head, work = heads[task], self._task_work[task]
            elapsed_us += work[head + count] - work[head]
        end_us = self.now_us + elapsed_us
        for task, count in decision.admit:
            head = heads[task]
            behind = bisect_left(self._task_times[task], end_us - self._deadlines[task], head, head + count) - head
            if behind:
                late += behind
                self._missed_by_task[task] += behind
            heads[task] = head + count
        self.decisions += 1
        self.batches += decision.batches
        self.overhead_us += overhead_us
        self.busy_us += elapsed_us
        self.missed += late
        self.now_us = end_us
        self.policy.completed(Completion(end_us, elapsed_us, decision.admit, late))


def simulate(workload: Workload, policy: Policy, *, overhead: bool = True, seed: int = 0) -> Outcome:
    """Runs the policy over the whole workload. With `overhead` False, decisions are free."""
    outcome = _Run(workload, policy, overhead, seed)
    return outcome.go()
