"""The cost model finds the true costs, reports its uncertainty, and survives an outlier."""

from __future__ import annotations

import numpy as np
import pytest

from kigen.schedule import CostModel, ScheduledTask
from kigen.schedule.policy_interface import Grant

TRUE = np.array([40.0, 90.0, 300.0])
FIXED = 150_000.0


def guessing() -> CostModel:
    return CostModel([ScheduledTask(f"t{i}", 1e6, cost_us=10.0) for i in range(3)], 200_000.0)


def batches(count: int, seed: int = 0) -> list[tuple[list[Grant], float]]:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        tuples = rng.integers(0, 2000, 3)
        admitted = [(i, int(n)) for i, n in enumerate(tuples) if n]
        made.append((admitted, FIXED * rng.uniform(0.9, 1.1) + float(tuples @ TRUE)))
    return made


def test_learns_fixed_and_tuple_costs() -> None:
    model = guessing()
    for admitted, elapsed in batches(200):
        model.observe(admitted, elapsed)
    assert model.fixed_us == pytest.approx(FIXED, rel=0.15)
    assert model.costs_us == pytest.approx(TRUE, rel=0.1)
    assert model.spread_us([(0, 100)]) < 0.2 * FIXED


def test_one_batch_corrects_guesses_that_are_wrong_together() -> None:
    model = guessing()
    model.observe([(0, 1000), (1, 1000)], 150_000.0 + 200_000.0)
    assert model.predict_us([(2, 1000)]) == pytest.approx(250_000.0, rel=0.25), "the third task's guess moved too"


def test_an_outlier_counts_little() -> None:
    model = guessing()
    for admitted, elapsed in batches(100):
        model.observe(admitted, elapsed)
    before = model.predict_us([(0, 1000), (1, 1000)])
    model.observe([(0, 1000), (1, 1000)], 60e6)
    assert model.predict_us([(0, 1000), (1, 1000)]) == pytest.approx(before, rel=0.2)


def test_follows_a_machine_that_becomes_slower() -> None:
    model = guessing()
    for admitted, elapsed in batches(100):
        model.observe(admitted, elapsed)
    for admitted, elapsed in batches(200, seed=1):
        model.observe(admitted, 2 * elapsed)
    assert model.predict_us([(0, 1000), (2, 500)]) == pytest.approx(2 * (FIXED + 40e3 + 150e3), rel=0.15)


def test_estimates_survive_a_restart() -> None:
    model, again = guessing(), guessing()
    for admitted, elapsed in batches(50):
        model.observe(admitted, elapsed)
    again.restore(model.to_json())
    assert again.predict_us([(1, 500)]) == pytest.approx(model.predict_us([(1, 500)]))
    assert set(model.report()["tasks"]) == {"t0", "t1", "t2"}
