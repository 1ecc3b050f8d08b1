"""What a micro-batch costs: a fixed part, and a part for each tuple of each task. Learnt from the lengths of batches alone.

The model is length = F + sum over tasks of n_i * c_i + noise. The estimate is recursive least squares in the form of a Kalman filter
whose covariance is kept diagonal: one step costs O(tasks in the batch), not O(tasks^2), and every estimate has its own variance, so its
spread is known. Two things make it robust: a surprise counts for at most `CLIP` standard deviations, and estimates keep a little
variance for ever (`DRIFT`), so that the model follows a machine that becomes slower.

Invariant: estimates stay positive; variances never grow past the square of what a first guess has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from kigen.schedule.events import Floats, Grant, ScheduledTask

CLIP = 3.0
DRIFT = 0.01  # relative change of an estimate that is expected between two batches
_NOISE_MEMORY = 0.98
_LEAST_US = 1e-3


class CostModel:
    def __init__(self, tasks: Sequence[ScheduledTask], fixed_us: float, learning: bool = True) -> None:
        """`fixed_us` and the tasks' `cost_us` are first guesses, trusted to within about their own size."""
        self.names = [task.name for task in tasks]
        self.fixed_us = float(fixed_us)
        self.costs_us = [max(_LEAST_US, float(task.cost_us)) for task in tasks]
        self._learning = learning
        self._fixed_var = (0.5 * self.fixed_us) ** 2 + 1.0
        self._vars = [(0.5 * cost) ** 2 + _LEAST_US for cost in self.costs_us]
        self._largest = [4.0 * var for var in self._vars]
        self.noise_var = (0.1 * self.fixed_us) ** 2 + 1.0
        self.observed = 0

    def predict_us(self, admitted: Iterable[Grant]) -> float:
        costs = self.costs_us
        return self.fixed_us + sum(count * costs[task] for task, count in admitted)

    def spread_us(self, admitted: Iterable[Grant]) -> float:
        """Standard deviation of the prediction: what is not known of the costs, and the noise of batches."""
        return math.sqrt(self.noise_var + self._fixed_var + sum(count * count * self._vars[task] for task, count in admitted))

    @property
    def noise_us(self) -> float:
        return math.sqrt(self.noise_var)

    def task_spread_us(self, task: int) -> float:
        return math.sqrt(self._vars[task])

    def observe(self, admitted: Sequence[Grant], elapsed_us: float) -> None:
        """A batch of these tuples took so long."""
        if not self._learning:
            return
        self.observed += 1
        costs, variances = self.costs_us, self._vars
        unknown = self._fixed_var + sum(count * count * variances[task] for task, count in admitted)
        total_var = unknown + self.noise_var
        surprise = elapsed_us - self.predict_us(admitted)
        limit = CLIP * math.sqrt(total_var)
        step = max(-limit, min(limit, surprise)) / total_var
        # The noise is learnt from surprises beyond what the unknown costs explain, bounded so that one outlier does not make it blind.
        seen = min(surprise * surprise, 100.0 * total_var)
        self.noise_var += (1 - _NOISE_MEMORY) * (max(seen - unknown, 0.05 * seen) - self.noise_var)
        self.fixed_us = max(_LEAST_US, self.fixed_us + self._fixed_var * step)
        self._fixed_var = self._fixed_var * (1 - self._fixed_var / total_var) + (DRIFT * self.fixed_us) ** 2
        for task, count in admitted:
            variance = variances[task]
            costs[task] = max(_LEAST_US, costs[task] + variance * count * step)
            left = variance * (1 - min(1.0, count * count * variance / total_var))
            variances[task] = min(self._largest[task] + costs[task] ** 2, left + (DRIFT * costs[task]) ** 2)

    def report(self) -> dict[str, Any]:
        """Where time goes, for users: the fixed cost and each task's cost a tuple, with their spread."""
        tasks = {
            name: {"tuple_us": round(cost, 3), "spread_us": round(math.sqrt(var), 3)}
            for name, cost, var in zip(self.names, self.costs_us, self._vars, strict=True)
        }
        fixed = {"fixed_us": round(self.fixed_us, 1), "fixed_spread_us": round(math.sqrt(self._fixed_var), 1)}
        return {**fixed, "noise_us": round(self.noise_us, 1), "batches": self.observed, "tasks": tasks}

    def to_json(self) -> dict[str, Any]:
        """All that was learnt: a run that goes on after a restart need not learn it again."""
        state = {"fixed_us": self.fixed_us, "fixed_var": self._fixed_var, "noise_var": self.noise_var, "observed": self.observed}
        return {**state, "tasks": {n: [c, v] for n, c, v in zip(self.names, self.costs_us, self._vars, strict=True)}}

    def restore(self, state: dict[str, Any]) -> None:
        self.fixed_us, self._fixed_var = state["fixed_us"], state["fixed_var"]
        self.noise_var, self.observed = state["noise_var"], state["observed"]
        for index, name in enumerate(self.names):
            if name in state["tasks"]:
                self.costs_us[index], self._vars[index] = state["tasks"][name]


def loads(rates_per_us: Floats, costs_us: Floats) -> Floats:
    """Share of the processor that each task asks for."""
    return rates_per_us * costs_us
