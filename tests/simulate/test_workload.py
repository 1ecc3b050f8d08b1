"""Checks that workloads are as the paper describes, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from kigen_lab.simulate import Setting, draw
from kigen_lab.simulate.deadlines.arrival_draws import KINDS, arrival_times_us


@pytest.mark.parametrize("kind", KINDS)
def test_arrivals_have_the_mean_rate_and_are_in_order(kind: str) -> None:
    times = arrival_times_us(kind, np.random.default_rng(0), 50_000, 1000.0)
    assert (np.diff(times) >= 0).all()
    assert times[-1] == pytest.approx(50_000 * 1000.0, rel=0.15)


def test_bursts_are_four_times_the_mean() -> None:
    times = arrival_times_us("bursty", np.random.default_rng(0), 200_000, 1000.0)
    counts = np.bincount((times // 250_000).astype(int))
    assert np.percentile(counts, 99) == pytest.approx(4 * 250, rel=0.15)
    assert np.median(counts) < 0.5 * 250


def test_unknown_arrivals_are_refused() -> None:
    with pytest.raises(ValueError, match="write one of"):
        arrival_times_us("steady", np.random.default_rng(0), 1, 1.0)


def test_costs_and_rates_are_the_papers_scaled() -> None:
    workload = draw(Setting(queries=300, tuples=500, selectivity=0.5))
    assert workload.times_us[-1] == pytest.approx(500 * 100_000 / 0.4, rel=0.2)
    mean = np.mean([task.cost_us for task in workload.tasks])
    assert mean == pytest.approx(48 * 10.5 * (1 + 1.5 + 1.75) / 3, rel=0.1)  # depths 1-3, selectivity 0.5
    true = np.mean([work[-1] / 500 for work in workload.task_work])
    assert true == pytest.approx(mean, rel=0.05), "C_exec is the mean of what tuples really cost"
    assert all(task.deadline_us is not None and 1e6 <= task.deadline_us <= 5e6 and task.firm for task in workload.tasks)


def test_a_seed_says_everything() -> None:
    one, same, other = (draw(Setting(queries=5, tuples=50, seed=seed)) for seed in (1, 1, 2))
    assert (one.times_us == same.times_us).all()
    assert (one.times_us != other.times_us).any()
