"""Compares the demand test with slow, obvious counting."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kigen.placement.solver.demand import curve, fit, sporadic, within


def slow_demand(start: list[float], end: list[float], work: list[float], period: float | None, span: float) -> float:
    """Tries every window of that length that opens at a release, and sums the work released and due within it."""
    jobs = [
        (a + k * (period or 0), b + k * (period or 0), c)
        for a, b, c in zip(start, end, work, strict=True)
        for k in range(60 if period else 1)
    ]
    return max(sum(c for a, b, c in jobs if a >= begin - 1e-6 and b <= begin + span + 1e-6) for begin in start)


@pytest.mark.parametrize("seed", range(25))
def test_a_timeline_demands_what_counting_says(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 6)
    start = [float(rng.randint(0, 20)) for _ in range(count)]
    end = [a + rng.randint(1, 15) for a in start]
    work = [float(rng.randint(1, 5)) for _ in range(count)]
    period = rng.choice([None, 10.0, 25.0])
    made = curve(start, end, work, period)
    for span in np.arange(1.0, 120.0):
        assert made.at(np.array([span]))[0] >= slow_demand(start, end, work, period, span) - 1e-9
    if period is None:
        for span in np.arange(1.0, 40.0):
            assert made.at(np.array([span]))[0] == pytest.approx(slow_demand(start, end, work, None, span))


@pytest.mark.parametrize("seed", range(25))
def test_a_task_with_jitter_demands_no_less_than_any_arrivals(seed: int) -> None:
    rng = random.Random(seed)
    deadline, period, jitter, work = rng.uniform(1, 30), rng.uniform(5, 20), rng.uniform(0, 30), 2.0
    made = sporadic(deadline, work, period, jitter)
    arrivals = sorted(k * period + rng.choice((0.0, jitter, rng.uniform(0, jitter))) for k in range(40))
    for begin in arrivals[:10]:
        for span in np.arange(1.0, 150.0, 3.0):
            due = work * sum(begin <= a and a + deadline <= begin + span for a in arrivals)
            assert made.at(np.array([span]))[0] >= due - 1e-9


@pytest.mark.parametrize("seed", range(25))
def test_within_agrees_with_the_largest_ratio(seed: int) -> None:
    rng = random.Random(seed)
    curves = [
        sporadic(rng.uniform(2, 30), rng.uniform(0.2, 3), rng.choice((10.0, 20.0)), rng.uniform(0, 5)) for _ in range(4)
    ]
    demand = fit(curves, 1.0).demand
    assert within(curves, 1.0, demand * 1.02)
    assert not within(curves, 1.0, demand * 0.9) or demand - sum(c.rate for c in curves) < 0.1


def test_a_chain_on_one_node_is_not_all_due_at_once() -> None:
    """The trap: ten operators, each with 1 ms of work and 2 ms of time, one after the other."""
    steps = [float(i) for i in range(10)]
    assert fit(
        [curve([2 * i for i in steps], [2 * i + 2 for i in steps], [1.0] * 10, None)], 1.0
    ).demand == pytest.approx(0.5)
    together = fit([sporadic(2.0, 1.0, None) for _ in steps], 1.0)
    assert together.demand == pytest.approx(5.0)


def test_a_running_tuple_blocks() -> None:
    task, late = sporadic(10.0, 5.0, 100.0), sporadic(80.0, 5.0, 100.0)
    assert fit([task, late], 1.0).demand == pytest.approx(0.5)
    assert fit([task, late], 1.0, [(10.0, 1.0), (80.0, 3.0)]).demand == pytest.approx(0.8)
