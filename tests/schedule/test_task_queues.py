"""Queues of tasks keep counts, order and due times, whatever is added and taken."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from kigen.schedule.packing.task_queues import TaskQueues

DEADLINES = (1e5, 5e6, 30e6)


@pytest.mark.parametrize("seed", range(5))
def test_against_lists(seed: int) -> None:
    rng = random.Random(seed)
    queues, lists, now = TaskQueues(DEADLINES, 100_000.0), [[], [], []], 0.0  # type: ignore[var-annotated]
    for _ in range(400):
        now += rng.uniform(0, 20_000)
        task = rng.randrange(3)
        action = rng.choice(("add", "add", "take", "drop"))
        if action == "add":
            count = rng.randint(1, 9)
            queues.add(task, count, now)
            lists[task] += [now + DEADLINES[task]] * count
        elif action == "take":
            count = rng.randint(1, 20)
            assert queues.take(task, count) == min(count, len(lists[task]))
            del lists[task][:count]
        else:
            before = now + rng.uniform(0, DEADLINES[task])
            taken = int(queues.take_before(task, before))
            slot = DEADLINES[task] / 50
            assert sum(due < before - slot for due in lists[task]) <= taken
            assert taken <= sum(due < before + slot for due in lists[task])
            del lists[task][:taken]
        for at, known in enumerate(lists):
            assert queues.pending[at] == len(known)
            if known:
                assert known[0] - DEADLINES[at] / 50 <= queues.heads_us[at] <= known[0] + 1e-6
                assert queues.heads_us[at] <= queues.tails_us[at] <= known[-1]
            else:
                assert math.isinf(queues.heads_us[at])


def test_many_arrivals_mean_the_same_as_single_ones() -> None:
    rng = np.random.default_rng(0)
    tasks, times = rng.integers(0, 3, 500), np.sort(rng.uniform(0, 1e6, 500))
    one, many = TaskQueues(DEADLINES, 1e5), TaskQueues(DEADLINES, 1e5)
    for task, at in zip(tasks.tolist(), times.tolist(), strict=True):
        one.add(task, 2, at)
    many.add_many(tasks, np.full(500, 2), times)
    assert (one.pending == many.pending).all()
    assert (one.heads_us == many.heads_us).all()
    for limit in np.linspace(0, 31e6, 40).tolist():
        assert [one.due_before(t, limit) for t in range(3)] == [many.due_before(t, limit) for t in range(3)]


def test_a_queue_of_thirty_seconds_has_no_more_slots_than_a_short_one() -> None:
    queues = TaskQueues((30e6,), 1e9)
    for step in range(30_000):
        queues.add(0, 1, step * 1_000.0)
    assert len(queues._queues[0]) <= 51
    assert queues.take_before(0, 45e6) == pytest.approx(15_000, abs=700), "the horizon is the deadline"
