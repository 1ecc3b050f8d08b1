"""Checks the virtual clock: an example worked by hand, and what holds for every run."""

from __future__ import annotations

import time

import numpy as np
import pytest
from kigen_lab.simulate import Setting, Workload, draw, run_policy, simulate

from kigen.schedule import POLICY_NAMES, PolicySettings, ScheduledTask, make_policy


def by_hand(deadline_us: float, times: list[float], cost: float, overhead: float) -> Workload:
    arrivals = np.array(times)
    task = ScheduledTask("q", deadline_us, True, cost)
    work = np.arange(len(times) + 1) * cost
    return Workload((task,), arrivals, np.zeros(len(times), np.int64), (arrivals,), (work,), (overhead, overhead))


def test_three_tuples_by_hand() -> None:
    """
    time     0    10    20    30    40    50
    arrive   a,b   c
    TAAT     [F a ][F b ][F c ]         F = 5, a tuple 10; deadlines: a, b at 32, c at 42
    ends         15    30    45         c is late by 3; in one batch (all) a ends at 25, b and c at 55
    """
    taat = simulate(w := by_hand(32.0, [0.0, 0.0, 10.0], 10.0, 5.0), make_policy("taat", w.tasks))
    assert (taat.missed, taat.shed, taat.decisions, taat.busy_us) == (1, 0, 3, 45.0)
    together = simulate(w, make_policy("all", w.tasks))
    assert (together.missed, together.decisions, together.busy_us) == (0, 2, 40.0)


@pytest.mark.parametrize("name", [n for n in POLICY_NAMES if n != "edf"])
def test_tuples_are_conserved_and_time_adds_up(name: str) -> None:
    workload = draw(Setting(rate=0.6, queries=20, tuples=200, scale=300.0))
    outcome = run_policy(name, workload)
    assert outcome.tuples == 4000
    assert outcome.shed <= outcome.missed <= outcome.tuples
    assert sum(outcome.missed_by_task) == outcome.missed
    assert outcome.overhead_us < outcome.busy_us <= outcome.span_us * (1 + 1e-9)
    full = sum(float(work[-1]) for work in workload.task_work)
    assert outcome.busy_us - outcome.overhead_us == pytest.approx(full, rel=1e-9) or outcome.shed


def test_soft_deadlines_lose_nothing() -> None:
    workload = draw(Setting(rate=1.0, queries=20, tuples=200, scale=900.0))
    policy = make_policy("pack", workload.tasks, PolicySettings(may_drop=False, fixed_us=workload.mean_overhead_us))
    outcome = simulate(workload, policy)
    assert outcome.shed == 0
    assert outcome.missed > 0


def test_hundreds_of_thousands_of_basic_tasks_take_seconds() -> None:
    workload = draw(Setting(rate=1.0, queries=100, tuples=3_000))
    began = time.process_time()
    outcome = run_policy("pack", workload)
    assert outcome.tuples == 300_000
    assert time.process_time() - began < 20
