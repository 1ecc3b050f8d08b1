"""Workers report what they spent on each task: the cost model takes F, A and c from that, not from lengths alone."""

from __future__ import annotations

import numpy as np
import pytest

from kigen.schedule import CostModel, ScheduledTask
from kigen.schedule.policy_interface import Grant

FIXED, TASKS, TUPLES = 2_000.0, np.array([400.0, 1_500.0, 5_000.0]), np.array([50.0, 150.0, 300.0])


def guessing(tasks: int = 3) -> CostModel:
    return CostModel([ScheduledTask(f"t{i}", 1e6, cost_us=2.0) for i in range(tasks)], 2_000.0)


def a_round(rng: np.random.Generator, largest: int = 100) -> tuple[list[Grant], float, list[float]]:
    """Draws a round, its length and its parts, with noise."""
    chosen = sorted(rng.choice(3, rng.integers(1, 4), replace=False).tolist())
    admitted = [(task, int(rng.integers(1, largest))) for task in chosen]
    parts = [float((TASKS[task] + n * TUPLES[task]) * rng.uniform(0.85, 1.15)) for task, n in admitted]
    return admitted, FIXED * float(rng.uniform(0.7, 1.3)) + sum(parts), parts


def test_parts_are_learnt_in_few_rounds() -> None:
    model, rng = guessing(), np.random.default_rng(0)
    for _ in range(60):
        model.observe(*a_round(rng))
    assert model.fixed_us == pytest.approx(FIXED, rel=0.15)
    assert model.tasks_us == pytest.approx(TASKS, rel=0.35)
    assert model.costs_us == pytest.approx(TUPLES, rel=0.15)
    assert model.predict_us([(0, 10), (2, 50)]) == pytest.approx(2_000 + 400 + 500 + 5_000 + 15_000, rel=0.1)
    assert model.noise_us < 0.25 * 30_000


def test_the_fixed_cost_is_known_though_all_rounds_are_alike() -> None:
    """From lengths alone, F, A and c cannot be told apart if every round has the same tuples."""
    model = guessing(1)
    for _ in range(50):
        model.observe([(0, 100)], 300_000.0 + 9_500.0, [9_500.0])
    assert model.fixed_us == pytest.approx(300_000.0, rel=0.02)
    assert model.predict_us([(0, 100)]) == pytest.approx(309_500.0, rel=0.02)


def test_one_task_teaches_the_others() -> None:
    model = guessing()
    for n in (1, 20, 5, 60, 40):
        model.observe([(0, n)], 2_000.0 + 1_000.0 + 100.0 * n, [1_000.0 + 100.0 * n])
    assert model.costs_us[2] == pytest.approx(float(model.costs_us[0])), "the same guess, the same factor"
    assert model.tasks_us[2] == pytest.approx(float(model.tasks_us[0]))


def test_an_outlier_counts_little_and_a_change_is_followed() -> None:
    model, rng = guessing(), np.random.default_rng(1)
    for _ in range(100):
        model.observe(*a_round(rng))
    before = model.predict_us([(1, 50)])
    model.observe([(1, 50)], 900_000.0, [800_000.0])
    assert model.predict_us([(1, 50)]) == pytest.approx(before, rel=0.3)
    for _ in range(150):
        admitted, elapsed, parts = a_round(rng)
        model.observe(admitted, 2 * elapsed, [2 * part for part in parts])
    assert model.predict_us([(1, 50)]) == pytest.approx(2 * (2_000 + 1_500 + 7_500), rel=0.15)


def test_restored_and_reported() -> None:
    model, again, rng = guessing(), guessing(), np.random.default_rng(2)
    for _ in range(40):
        model.observe(*a_round(rng))
    again.restore(model.to_json())
    assert again.predict_us([(0, 5), (2, 9)]) == pytest.approx(model.predict_us([(0, 5), (2, 9)]))
    assert model.report()["tasks"]["t2"]["task_us"] == pytest.approx(5_000.0, rel=0.35)
    older = {key: value for key, value in model.to_json().items() if key != "tasks_us"}
    again.restore(older)
    assert again.tasks_us == pytest.approx([model.task_us] * 3), "saved before tasks were measured one by one"


def test_a_first_guess_of_what_a_task_costs() -> None:
    assert guessing().task_us == 1_000.0, "rounds: half of F"
    assert CostModel([ScheduledTask("a")], 200_000.0).task_us == 1_000.0, "micro-batches: hardly anything of F"
    assert CostModel([ScheduledTask("a")], 2_000.0, task_us=300.0).task_us == 300.0


def test_a_task_that_was_once_far_too_slow_is_not_starved_for_ever() -> None:
    """A policy may not take what seems too expensive, so nothing would measure it again."""
    model, rng = guessing(), np.random.default_rng(2)
    model.observe([(0, 12)], 40_000.0, [38_000.0])  # its code was cold
    for _ in range(100):
        n, m = int(rng.integers(1, 60)), int(rng.integers(1, 60))
        model.observe([(1, n), (2, m)], 5_000.0 + 150.0 * (n + m), [1_500.0 + 150.0 * n, 1_500.0 + 150.0 * m])
    assert model.predict_us([(0, 12)]) == pytest.approx(model.predict_us([(1, 12)]), rel=0.5)
