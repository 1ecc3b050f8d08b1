"""The greedy selection of work is the optimum of its linear program, and whole parts stay within it."""

from __future__ import annotations

import highspy
import numpy as np
import pytest

from kigen.schedule.slices.greedy import take_steepest, whole_parts


def optimum(work: np.ndarray, room: np.ndarray, slopes: np.ndarray) -> float:
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    shares = [[solver.addVariable(0.0, float(w)) for w in row] for row in work]
    for p in range(len(room)):
        solver.addConstr(sum(x for row in shares[: p + 1] for x in row) <= float(room[p]))
    solver.maximize(sum(float(s) * x for row in shares for s, x in zip(slopes, row, strict=True)))
    return float(solver.getInfo().objective_function_value)


@pytest.mark.parametrize("seed", range(25))
def test_greedy_is_optimal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    work = rng.uniform(0.5, 3.0, (12, 3)) * (rng.random((12, 3)) < 0.8)
    room = np.cumsum(rng.uniform(0.0, 5.0, 12))
    slopes = np.array([5.0, 2.0, 1.0])
    taken = take_steepest(work, room)
    assert (taken <= work + 1e-9).all()
    assert (np.cumsum(taken.sum(axis=1)) <= room + 1e-9).all()
    assert float((taken @ slopes).sum()) == pytest.approx(optimum(work, room, slopes))


def test_nothing_is_refused_if_there_is_room() -> None:
    work = np.ones((5, 2))
    assert (take_steepest(work, 2.0 * np.arange(1, 6)) == work).all()
    assert (take_steepest(work, np.full(5, np.inf)) == work).all()


@pytest.mark.parametrize("seed", range(10))
def test_whole_parts_cost_no_more_than_was_taken(seed: int) -> None:
    rng = np.random.default_rng(seed)
    work = np.tile([1.0, 4.0], (40, 1))
    taken = take_steepest(work, np.cumsum(rng.uniform(0.0, 5.0, 40)))
    cost = np.zeros(40)
    for row, group in whole_parts(work, taken, np.inf):
        cost[row] = work[row, : group + 1].sum()
    assert (np.cumsum(cost) <= np.cumsum(taken.sum(axis=1)) + 1e-6).all()
    assert cost.sum() > taken.sum() - 5.0
    some = whole_parts(work, taken, 3.0)
    assert some == whole_parts(work, taken, np.inf)[: len(some)]
