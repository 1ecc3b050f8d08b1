"""Compares EDF and FIFO over (tuple, task), one tuple per decision, with a reference that sorts everything that
waits.
"""

from __future__ import annotations

import random

import pytest

from kigen.schedule import Completion, PolicySettings, ScheduledTask, make_policy

TASKS = (
    ScheduledTask("control", 30_000.0, True, 1_000.0),
    ScheduledTask("warning", 300_000.0, False, 1_000.0),
    ScheduledTask("news", 3_000_000.0, False, 1_000.0),
    ScheduledTask("whenever", None, False, 1_000.0),
)


@pytest.mark.parametrize("rule", ["edf", "fifo"])
@pytest.mark.parametrize("seed", range(5))
def test_the_first_of_all_that_waits(rule: str, seed: int) -> None:
    rng = random.Random(seed)
    policy = make_policy("taat", TASKS, PolicySettings(rule=rule, may_drop=False))
    waiting: list[tuple[float, int]] = []
    now, ran = 0.0, 0
    while ran < 400:
        for task, scheduled in enumerate(TASKS):
            if rng.random() < 0.24:
                policy.arrived(task, 1, now)
                relative = float("inf") if scheduled.deadline_us is None else scheduled.deadline_us
                waiting.append((now + (relative if rule == "edf" else 0.0), task))
        decision = policy.next(now)
        assert not decision.drop
        if not waiting:
            assert decision.idle
        else:
            waiting.sort()
            assert decision.admit == [(waiting.pop(0)[1], 1)]
            policy.completed(Completion(now + 1_000.0, 1_000.0, decision.admit))
        now += 1_000.0
        ran += 1


def test_fifo_drops_nothing_however_late() -> None:
    policy = make_policy("taat", TASKS, PolicySettings(rule="fifo"))
    policy.arrived(0, 2, 0.0)
    decision = policy.next(1e9)
    assert (decision.admit, decision.drop) == ([(0, 1)], [])
