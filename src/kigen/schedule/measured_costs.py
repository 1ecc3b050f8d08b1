"""Costs of tasks as workers measure them: for each task a part per round, A, and a part per tuple, c.

A worker reports what it spent on each task of a round: A + n * c. Two numbers per task are learnt from that by weighted
least squares over its last few dozen measurements, apart from all other tasks. A task that always has equally many
tuples cannot tell A from c, so both have a first guess that counts as a measurement: A is that of the other tasks, and
c is the user's guess times the factor by which the others differ from theirs. The noise of a measurement is taken as
relative to its length. A surprise counts for at most `CLIP` standard deviations, unless surprises agree. A task's first
measurement counts little: its code was cold. Measurements of a task that is not taken any more lose their weight, so
that a wrong estimate cannot be the reason for its own survival.

Invariant: estimates are never negative. Cost: some microseconds per task of a round.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from kigen.schedule.policy_interface import Floats, Grant

CLIP = 3.0
_KEPT = 0.97  # weight of a measurement when the next one comes
_NOISE, _NOISE_US = 0.2, 20.0  # spread of a measurement: relative, and at least
_ALIKE = 0.5  # relative spread of A between tasks
_UNSURE_US = 100.0  # least error of the first guess of a tuple's cost
_LEAST_US = 1e-3
_COLD = 5.0  # times as much noise in the first measurement
_STALE, _STALE_KEPT = 16, 0.25  # rounds without a measurement after which the weight of earlier ones falls by this
_SMOOTH = 0.05  # weight of a task's newest A in the mean of all
_ROUNDS = 32  # rounds that the fixed cost is learnt from


_Sums = tuple[float, float, float, float, float]
_Estimate = tuple[float, float, float]  # A, c, and the spread of c


class MeasuredCosts:
    """Estimates for all tasks of a run. `tasks_us` is A and `tuples_us` is c, per task."""

    def __init__(self, guesses_us: Floats, task_us: Floats, doubt: float) -> None:
        self._guesses_us, self._doubt = guesses_us.copy(), doubt
        self.tasks_us, self.tuples_us = task_us.copy(), guesses_us.copy()
        self._mean_us = float(task_us.mean()) if len(task_us) else 0.0  # A over tasks
        self._factor = 1.0  # by which tuples cost more than was guessed, over tasks
        self._seen = np.zeros(len(guesses_us), bool)
        self._sums: list[_Sums] = [(0.0, 0.0, 0.0, 0.0, 0.0)] * len(guesses_us)  # of weights, n, n^2, time and n * time
        self._bias = [0.0] * len(guesses_us)
        self._round, self._last = 0, np.zeros(len(guesses_us), np.int64)  # rounds so far, and at the last measurement
        self.spreads_us = np.maximum(doubt * guesses_us, _UNSURE_US)  # standard deviations of the costs per tuple

    def observe(self, admitted: Sequence[Grant], elapsed_us: Sequence[float]) -> None:
        """Learns that these grants, of different tasks, took so long, each by itself."""
        self._round += 1
        measured = [
            (task, float(count), float(took_us))
            for (task, count), took_us in zip(admitted, elapsed_us, strict=True)
            if count > 0 and took_us >= 0 and math.isfinite(took_us)
        ]
        tasks = [task for task, _, _ in measured]
        before = zip(
            measured,
            self._seen[tasks].tolist(),
            self.tasks_us[tasks].tolist(),
            self.tuples_us[tasks].tolist(),
            (self._guesses_us[tasks] * self._factor).tolist(),
            strict=True,
        )
        self._set(tasks, [self._learn(*mine, seen, a, c, guess) for mine, seen, a, c, guess in before])
        self._seen[tasks], self._last[tasks] = True, self._round
        if not self._seen.any():
            return
        stale = np.flatnonzero(self._seen & (self._round - self._last >= _STALE)).tolist()
        for task in stale:
            self._sums[task], self._last[task] = _scaled(self._sums[task], _STALE_KEPT), self._round
        self._set(stale, [self._estimate(task, float(self._guesses_us[task]) * self._factor) for task in stale])
        self._factor = float(np.median(self.tuples_us[self._seen] / self._guesses_us[self._seen]))
        if not self._seen.all():  # the tasks without measurements borrow from the others
            self.tasks_us[~self._seen] = self.tasks_us[self._seen].mean()
            self.tuples_us[~self._seen] = np.maximum(self._guesses_us[~self._seen] * self._factor, _LEAST_US)

    def _set(self, tasks: list[int], estimates: list[_Estimate]) -> None:
        if tasks:
            self.tasks_us[tasks], self.tuples_us[tasks], self.spreads_us[tasks] = zip(*estimates, strict=True)

    def _learn(
        self, task: int, count: float, took_us: float, seen: bool, own_us: float, tuple_us: float, guess_us: float
    ) -> _Estimate:
        """Adds a measurement to the sums of a task, and returns its new estimate. The other numbers are its old one."""
        expected_us = own_us + count * tuple_us
        noise_us = _NOISE * expected_us + _NOISE_US
        if seen:
            took_us = self._clipped(task, took_us, expected_us, noise_us)
        else:
            noise_us *= _COLD
        weight = 1.0 / (noise_us * noise_us)
        all_, n, nn, t, nt = self._sums[task]
        self._sums[task] = (
            _KEPT * all_ + weight,
            _KEPT * n + weight * count,
            _KEPT * nn + weight * count * count,
            _KEPT * t + weight * took_us,
            _KEPT * nt + weight * count * took_us,
        )
        estimate = self._estimate(task, guess_us)
        self._mean_us += _SMOOTH * (estimate[0] - self._mean_us)
        return estimate

    def _estimate(self, task: int, guess_us: float) -> _Estimate:
        """Solves for A and c of a task."""
        all_, n, nn, t, nt = self._sums[task]
        sure_a = 1.0 / (_ALIKE * self._mean_us + _NOISE_US) ** 2
        sure_c = 1.0 / max(self._doubt * guess_us, _UNSURE_US) ** 2
        all_, t, nn, nt = all_ + sure_a, t + sure_a * self._mean_us, nn + sure_c, nt + sure_c * guess_us
        determinant = all_ * nn - n * n
        a, c = (t * nn - n * nt) / determinant, (all_ * nt - n * t) / determinant
        if a < 0:
            a, c = 0.0, nt / nn
        elif c < _LEAST_US:
            a, c = t / all_, _LEAST_US
        return a, max(c, _LEAST_US), math.sqrt(all_ / determinant)

    def _clipped(self, task: int, took_us: float, expected_us: float, noise_us: float) -> float:
        """Limits a surprise. Surprises that keep their sign are no noise: the costs have changed."""
        surprise = (took_us - expected_us) / noise_us
        surprise = CLIP if surprise > CLIP else -CLIP if surprise < -CLIP else surprise
        bias = self._bias[task]
        bias += 0.2 * (surprise - bias)
        if abs(bias) > 1.0:
            self._sums[task] = _scaled(self._sums[task], 0.5)
            self._bias[task] = bias * 0.5
            return took_us
        self._bias[task] = bias
        return expected_us + surprise * noise_us


def _scaled(sums: _Sums, factor: float) -> _Sums:
    all_, n, nn, t, nt = sums
    return factor * all_, factor * n, factor * nn, factor * t, factor * nt


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
