"""Costs of slices: of a round, f; of a task in it, A; of each slice's pass; and per tuple of each slice.

A worker reports what it spent on each task of a round, over all slices of the task together. f is the rest. What a task
took is A + the passes of its slices + the tuples of each slice, and a cost model per task learns the parts
(`kigen.schedule.cost_model`, with A in the place of the fixed cost). Without such reports (micro-batches), one model
learns all of it from the lengths of batches, as for any policy.

Invariant: estimates are never negative. Cost: that of the models, for the slices that ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kigen.schedule.cost_model import CostModel
from kigen.schedule.measured_costs import FixedCost
from kigen.schedule.policies import PolicySettings
from kigen.schedule.policy_interface import Floats, Grant, ScheduledTask

_TASK_SHARE, _TASK_US = 0.5, 1_000.0  # first guess of A: this share of the fixed cost, and at most


class SliceCosts:
    """Estimates for all slices of all tasks, numbered over all tasks."""

    def __init__(self, tasks: Sequence[Sequence[ScheduledTask]], settings: PolicySettings) -> None:
        s = settings
        self._tasks = [tuple(slices) for slices in tasks]
        ends = np.cumsum([0, *(len(slices) for slices in tasks)]).tolist()
        self._spans = [slice(first, end) for first, end in pairwise(ends)]
        every = [queue for slices in tasks for queue in slices]
        self._inferred = CostModel(every, s.fixed_us, s.learning, s.doubt, s.task_us or 0.0)
        task_us = min(_TASK_SHARE * s.fixed_us, _TASK_US) if s.task_us is None else s.task_us
        self._own = [CostModel(slices, task_us, s.learning, s.doubt, task_us / 4) for slices in tasks]
        self._fixed = FixedCost(s.fixed_us)
        self._learning, self._measured = s.learning, False

    @property
    def fixed_us(self) -> float:
        """Cost of a round beside its tasks."""
        return self._fixed.mean_us if self._measured else self._inferred.fixed_us

    @property
    def costs_us(self) -> Floats:
        """Cost per tuple of each slice."""
        return np.concatenate([own.costs_us for own in self._own]) if self._measured else self._inferred.costs_us

    def task_us(self, task: int) -> float:
        """Cost of a task to be in a round, with a pass of each of its slices."""
        model, slices = (self._own[task] if self._measured else self._inferred), len(self._tasks[task])
        own_us = model.fixed_us if self._measured else 0.0
        return own_us + slices * model.task_us

    def observe(
        self, given: Mapping[int, Sequence[Grant]], elapsed_us: float, parts_us: Mapping[int, float] | None = None
    ) -> None:
        """Learns what a round took. `given` has, per task, the tuples of each of its slices; `parts_us` what each task
        took.
        """
        if not self._learning:
            return
        if parts_us is None:
            if given and not self._measured:
                grants = [(self._spans[task].start + at, n) for task, mine in given.items() for at, n in mine]
                self._inferred.observe(grants, elapsed_us)
            return
        self._measured = True
        self._fixed.observe(elapsed_us - sum(parts_us.values()))
        for task, counts in given.items():
            if counts and parts_us.get(task, 0.0) > 0:
                self._own[task].observe(counts, parts_us[task])

    def report(self) -> dict[str, Any]:
        if not self._measured:
            return self._inferred.report()
        reports = [own.report() for own in self._own]
        tasks = {name: value for one in reports for name, value in one["tasks"].items()}
        mean_us = float(np.mean([self.task_us(task) for task in range(len(self._own))])) if self._own else 0.0
        fixed = {"fixed_us": round(self.fixed_us, 1), "fixed_spread_us": 0.0, "task_us": round(mean_us, 1)}
        noise_us = max((one["noise_us"] for one in reports), default=0.0)
        batches = max((one["batches"] for one in reports), default=0)
        return {**fixed, "noise_us": noise_us, "batches": batches, "tasks": tasks}

    def to_json(self) -> dict[str, Any]:
        """Returns what was learnt, so that a restarted run need not begin with guesses."""
        if not self._measured:
            return self._inferred.to_json()
        own = [model.to_json() for model in self._own]
        tasks = {name: cost for one in own for name, cost in one["tasks"].items()}
        parts = {
            slices[0].name: {key: one[key] for key in ("fixed_us", "task_us", "noise_var")}
            for slices, one in zip(self._tasks, own, strict=True)
        }
        whole = self._inferred.to_json()
        return {**whole, "fixed_us": self.fixed_us, "tasks": tasks, "parts": parts}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores the estimates, also those that another policy has learnt."""
        self._inferred.restore(state)
        self._fixed = FixedCost(state["fixed_us"])
        self._measured = "parts" in state
        for slices, own in zip(self._tasks, self._own, strict=True):
            part = state.get("parts", {}).get(slices[0].name)
            if part is not None:
                own.restore({**part, "tasks": state["tasks"]})
