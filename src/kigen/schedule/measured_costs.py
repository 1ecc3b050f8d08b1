"""Costs of tasks as workers measure them: for each task a part per round, A, and a part per tuple, c.

A worker reports what it spent on each task of a round: A + n * c. Two numbers per task are learnt from that by
recursive least squares, apart from all other tasks. The noise of a measurement is taken as relative to its length. A
surprise counts for at most `CLIP` standard deviations, and estimates keep a little variance for ever (`DRIFT`), more
when surprises agree, so that they follow a machine that changes. A task without measurements borrows from the others:
their mean A, and the factor by which their tuple costs differ from the guesses.

Invariant: estimates are never negative. Cost: some microseconds per task of a round.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from kigen.schedule.policy_interface import Floats, Grant

CLIP = 3.0
DRIFT = 0.01  # expected relative change of an estimate between two rounds
_NOISE, _NOISE_US = 0.2, 20.0  # spread of a measurement: relative, and at least
_UNSURE = 2.0  # relative error of the first guess of A
_UNSURE_US = 100.0  # least error of the first guess of a tuple's cost
_LEAST_US = 1e-3
_ROUNDS = 32  # rounds that the fixed cost is learnt from


class MeasuredCosts:
    """Estimates for all tasks of a run. `tasks_us` is A and `tuples_us` is c, per task."""

    def __init__(self, guesses_us: Floats, task_us: Floats, doubt: float) -> None:
        self._guesses_us = guesses_us.copy()
        self.tasks_us, self.tuples_us = task_us.copy(), guesses_us.copy()
        self._seen = np.zeros(len(guesses_us), bool)
        self._spreads = [
            (max((_UNSURE * a) ** 2, _NOISE_US**2), 0.0, max((doubt * c) ** 2, _UNSURE_US**2))
            for a, c in zip(task_us.tolist(), guesses_us.tolist(), strict=True)
        ]  # per task: variance of A, covariance, variance of c
        self._bias = [0.0] * len(guesses_us)

    def observe(self, admitted: Sequence[Grant], elapsed_us: Sequence[float]) -> None:
        """Learns that these grants took so long, each by itself."""
        for (task, count), took_us in zip(admitted, elapsed_us, strict=True):
            if count > 0 and took_us >= 0 and math.isfinite(took_us):
                self._seen[task] = True
                self._learn(task, float(count), float(took_us))
        if not self._seen.all() and self._seen.any():
            self._lend()

    def _learn(self, task: int, count: float, took_us: float) -> None:
        a, c = float(self.tasks_us[task]), float(self.tuples_us[task])
        var_a, both, var_c = self._spreads[task]
        with_a, with_c = var_a + count * both, both + count * var_c  # covariances with the measurement
        total = with_a + count * with_c + (_NOISE * (a + count * c) + _NOISE_US) ** 2
        deviation = math.sqrt(total)
        surprise = max(-CLIP * deviation, min(CLIP * deviation, took_us - a - count * c))
        a = max(a + with_a * surprise / total, 0.0)
        c = max(c + with_c * surprise / total, _LEAST_US)
        self.tasks_us[task], self.tuples_us[task] = a, c
        var_a = max(var_a - with_a * with_a / total, 0.0) + (DRIFT * a) ** 2
        var_c = max(var_c - with_c * with_c / total, 0.0) + (DRIFT * c) ** 2
        self._bias[task] += 0.2 * (surprise / deviation - self._bias[task])
        if abs(self._bias[task]) > 1.0:  # surprises that keep their sign are no noise: the costs have changed
            var_a, var_c = var_a + (0.3 * a) ** 2, var_c + (0.3 * c) ** 2
            self._bias[task] *= 0.5
        limit = math.sqrt(var_a * var_c)
        self._spreads[task] = var_a, max(-limit, min(limit, both - with_a * with_c / total)), var_c

    def _lend(self) -> None:
        """Gives the tasks without measurements what the others have taught."""
        seen = self._seen
        self.tasks_us[~seen] = self.tasks_us[seen].mean()
        factor = float(self.tuples_us[seen].sum() / self._guesses_us[seen].sum())
        self.tuples_us[~seen] = np.maximum(self._guesses_us[~seen] * factor, _LEAST_US)

    @property
    def spreads_us(self) -> Floats:
        """Standard deviations of the costs per tuple."""
        return np.asarray(np.sqrt([var_c for _, _, var_c in self._spreads]), np.float64)


class FixedCost:
    """Cost of a round beside its tasks: the mean of the last rounds, without the shortest and the longest ones.

    Cost: a sort of 32 numbers per round.
    """

    def __init__(self, guess_us: float) -> None:
        self.mean_us = guess_us
        self._last: deque[float] = deque(maxlen=_ROUNDS)

    def observe(self, took_us: float) -> None:
        self._last.append(max(took_us, 0.0))
        trim = len(self._last) // 8
        middle = sorted(self._last)[trim : len(self._last) - trim]
        self.mean_us = sum(middle) / len(middle)
