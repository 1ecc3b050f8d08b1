"""Cost model of a batch: a fixed part, a part per task in it, a part per tuple.

Where workers report what they spent on each task of a round, these measurements are used as they are
(`measured_costs`). Otherwise the model learns from the lengths of batches alone, as follows.

The model is length = F + A * (tasks in the batch) + sum over tasks of n_i * c_i + noise. The estimate is recursive
least squares, as a Kalman filter: the covariance gives every estimate, and every prediction, its spread. First guesses
of tuple costs are assumed to be wrong together (by a common factor, the machine) as well as one by one. Two things make
the model robust: a surprise counts for at most `CLIP` standard deviations, and estimates keep a little variance for
ever (`DRIFT`), more when surprises agree, so that the model follows a machine that changes.

Invariant: estimates are never negative. Cost: O(tasks in the batch) per prediction; O(tasks^2) per learnt batch, 0.1 ms
for 300 tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kigen.schedule.measured_costs import FixedCost, MeasuredCosts
from kigen.schedule.policy_interface import Floats, Grant, ScheduledTask

CLIP = 3.0
DRIFT = 0.005  # expected relative change of an estimate between two batches
_MEMORY = 0.95  # share of the noise estimate that is kept per batch
_TOGETHER = 3.0  # common error of the first guesses, relative to their individual errors
_NOISE, _LEAST_NOISE = 0.2, 0.08  # spread of the fixed cost: first guess, and at least
_KNOWN, _SMALL_US = 0.1, 20.0  # a guess above so many microseconds is the user's (COST), and better known
_LEAST_US = 1e-3
_TASK_SHARE, _TASK_US = 0.5, 1_000.0  # first guess of A: this share of F, and at most
_TASKS = 2  # index of the first tuple cost in the vector of estimates; F and A come before


class CostModel:
    """Estimates of all costs of one run."""

    def __init__(
        self,
        tasks: Sequence[ScheduledTask],
        fixed_us: float,
        learning: bool = True,
        doubt: float = 3.0,
        task_us: float | None = None,
    ) -> None:
        """Starts from guesses.

        `fixed_us`, `task_us` and the tasks' `cost_us` are first guesses; `doubt` is the relative error that the tuple
        costs may have. Without `task_us`, A is guessed as half of F, at most one millisecond.
        """
        self.names = [task.name for task in tasks]
        guesses = np.maximum(np.array([task.cost_us for task in tasks], np.float64), _LEAST_US)
        if task_us is None:
            task_us = min(_TASK_SHARE * fixed_us, _TASK_US)
        self._estimates: Floats = np.concatenate(([float(fixed_us), float(task_us)], guesses))
        self._tasks_us: Floats = np.full(len(guesses), float(task_us))
        self._doubt = doubt
        self._measured: MeasuredCosts | None = None
        self._fixed: FixedCost | None = None
        self._learning = learning
        self._covariance: Floats = np.zeros((0, 0))
        if learning:
            self._covariance = np.zeros((len(tasks) + _TASKS,) * 2)
            self._covariance[_TASKS:, _TASKS:] = (_TOGETHER * doubt) ** 2 * np.outer(guesses, guesses)
            spread = np.concatenate(
                (
                    [min(0.5, doubt) * fixed_us + 1.0, min(0.02, 0.1 * doubt) * fixed_us + min(1.0, doubt) * task_us],
                    doubt * (_KNOWN * guesses + np.minimum(guesses, _SMALL_US)),
                )
            )
            self._covariance += np.diag(spread**2)
        self.noise_var = (_NOISE * fixed_us) ** 2 + 1.0
        self.observed = 0
        self._bias = 0.0  # mean of recent surprises, in standard deviations

    @property
    def fixed_us(self) -> float:
        return float(self._estimates[0])

    @property
    def task_us(self) -> float:
        """Cost of a task to be in the batch at all, as a mean over tasks."""
        return float(self._estimates[1])

    @property
    def tasks_us(self) -> Floats:
        """Cost of each task to be in the batch at all. Must not be changed."""
        return self._tasks_us

    @property
    def costs_us(self) -> Floats:
        """Cost per tuple of each task. Must not be changed."""
        return self._estimates[_TASKS:]

    @property
    def noise_us(self) -> float:
        return math.sqrt(self.noise_var)

    def predict_us(self, admitted: Sequence[Grant]) -> float:
        """Predicts the length of a batch."""
        tasks, counts = [task for task, _ in admitted], [count for _, count in admitted]
        each_us = self._tasks_us[tasks] + np.array(counts, np.float64) * self.costs_us[tasks]
        return self.fixed_us + float(sum(each_us.tolist()))

    def spread_us(self, admitted: Sequence[Grant]) -> float:
        """Returns the standard deviation of the prediction: uncertainty of the costs, and noise of batches."""
        if not self._learning:
            return self.noise_us
        if self._measured is not None:
            spreads_us = self._measured.spreads_us
            return math.sqrt(self.noise_var + sum(float(count * spreads_us[task]) ** 2 for task, count in admitted))
        rows, weights = _terms(admitted)
        return math.sqrt(self.noise_var + float(weights @ self._covariance[np.ix_(rows, rows)] @ weights))

    def observe(
        self, admitted: Sequence[Grant], elapsed_us: float, task_elapsed_us: Sequence[float] | None = None
    ) -> None:
        """Learns that a batch of these tuples took `elapsed_us`, and what of it was each grant's own, if reported."""
        if not self._learning:
            return
        self.observed += 1
        if task_elapsed_us is not None:
            self._observe_parts(admitted, elapsed_us, task_elapsed_us)
            return
        if self._measured is not None:  # a round without a report, among others with one
            return
        rows, weights = _terms(admitted)
        related = self._covariance[:, rows] @ weights
        unknown = float(related[rows] @ weights)
        total = unknown + self.noise_var
        surprise = elapsed_us - float(self._estimates[rows] @ weights)
        limit = CLIP * math.sqrt(total)
        self._estimates += related * (max(-limit, min(limit, surprise)) / total)
        np.maximum(self._estimates, 0.0, out=self._estimates)
        np.maximum(self._estimates[_TASKS:], _LEAST_US, out=self._estimates[_TASKS:])
        self._tasks_us[:] = self._estimates[1]
        self._covariance -= np.outer(related / total, related)
        self._covariance[rows, rows] = (
            np.maximum(self._covariance[rows, rows], 0.0) + (DRIFT * self._estimates[rows]) ** 2
        )
        # The share of the surprise that unknown costs do not explain is noise. It is bounded, so that one outlier does
        # not blind the model.
        share = self.noise_var / total
        seen = min(surprise * surprise, CLIP * CLIP * total) * share * share
        self.noise_var += (1 - _MEMORY) * (seen + self.noise_var * unknown / total - self.noise_var)
        self.noise_var = max(self.noise_var, (_LEAST_NOISE * self.fixed_us) ** 2, 1.0)
        self._suspect(max(-CLIP, min(CLIP, surprise / math.sqrt(total))))

    def _observe_parts(self, admitted: Sequence[Grant], elapsed_us: float, parts_us: Sequence[float]) -> None:
        """Learns from measured parts: what is not a task's own is the fixed cost."""
        if self._measured is None or self._fixed is None:
            self._measured = MeasuredCosts(self.costs_us, self._tasks_us, self._doubt)
            self._fixed = FixedCost(self.fixed_us)
        surprise = elapsed_us - self.predict_us(admitted)
        seen = min(surprise * surprise, CLIP * CLIP * self.noise_var * 4)
        self.noise_var = max(self.noise_var + (1 - _MEMORY) * (seen - self.noise_var), 1.0)
        self._measured.observe(admitted, parts_us)
        self._fixed.observe(elapsed_us - sum(parts_us))
        self._tasks_us = self._measured.tasks_us
        self._estimates[0] = self._fixed.mean_us
        self._estimates[1] = float(self._tasks_us.mean())
        self._estimates[_TASKS:] = self._measured.tuples_us

    def _suspect(self, surprise: float) -> None:
        """Widens the spread of the costs when surprises keep their sign: that is no noise, the costs have changed."""
        self._bias += 0.2 * (surprise - self._bias)
        if abs(self._bias) > 1.0:
            own = np.diag((0.1 * self._estimates) ** 2)
            self._covariance += own + np.outer(0.2 * self._estimates, 0.2 * self._estimates)
            self._bias *= 0.5

    def report(self) -> dict[str, Any]:
        """Returns the fixed cost and the cost per tuple of each task, with their spread, for users."""
        size = len(self._estimates)
        spread = np.sqrt(np.maximum(np.diag(self._covariance), 0.0)) if self._learning else np.zeros(size)
        if self._measured is not None:
            spread[_TASKS:] = self._measured.spreads_us
        costs = zip(self.names, self.costs_us.tolist(), spread[_TASKS:].tolist(), self._tasks_us.tolist(), strict=True)
        tasks = {
            name: {"tuple_us": round(cost, 3), "spread_us": round(own, 3), "task_us": round(task_us, 1)}
            for name, cost, own, task_us in costs
        }
        fixed = {
            "fixed_us": round(self.fixed_us, 1),
            "fixed_spread_us": round(float(spread[0]), 1),
            "task_us": round(self.task_us, 1),
        }
        return {**fixed, "noise_us": round(self.noise_us, 1), "batches": self.observed, "tasks": tasks}

    def to_json(self) -> dict[str, Any]:
        """Returns what was learnt, so that a restarted run need not begin with guesses."""
        state = {"fixed_us": self.fixed_us, "task_us": self.task_us, "noise_var": self.noise_var}
        tasks = {"tasks": dict(zip(self.names, self.costs_us.tolist(), strict=True))}
        if self._measured is None:
            return {**state, **tasks}
        return {**state, **tasks, "tasks_us": dict(zip(self.names, self._tasks_us.tolist(), strict=True))}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores the estimates, and trusts them as much as after a few batches."""
        self._estimates[:_TASKS] = state["fixed_us"], state["task_us"]
        for index, name in enumerate(self.names):
            self._estimates[_TASKS + index] = state["tasks"].get(name, self._estimates[_TASKS + index])
            self._tasks_us[index] = state.get("tasks_us", {}).get(name, state["task_us"])
        self._measured = self._fixed = None
        self.noise_var = state["noise_var"]
        if self._learning:
            self._covariance = np.diag((0.2 * self._estimates) ** 2)


def _terms(admitted: Sequence[Grant]) -> tuple[list[int], Floats]:
    """Returns the indices of the estimates that make up a batch's length, and their weights."""
    rows = [0, 1, *(task + _TASKS for task, _ in admitted)]
    return rows, np.array([1.0, float(len(admitted)), *(float(count) for _, count in admitted)])
