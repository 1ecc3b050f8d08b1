"""A decision does not look at tuples that it does not take.

`kigen bench deadlines` measures its cost (kigen_lab.bench.deadlines.admission_cost).
"""

from __future__ import annotations

import numpy as np
import pytest

from kigen.schedule import Policy, PolicySettings, ScheduledTask, make_policy
from kigen.schedule.adaptive.basic_batch_manager import BasicBatchManager

QUERIES, BATCHES = 300, 1000


def filled(name: str, firm: bool = False) -> Policy:
    tasks = [ScheduledTask(f"q{i}", 1e6 * (1 + i % 30), firm, 50.0) for i in range(QUERIES)]
    policy = make_policy(name, tasks, PolicySettings(phi_us=20_000.0, fixed_us=150_000.0))
    owners = np.tile(np.arange(QUERIES), BATCHES)
    arrivals = np.repeat(np.arange(BATCHES) * 20_000.0, QUERIES)
    policy.arrived_many(owners, np.full(len(owners), 3), arrivals)
    return policy


def test_the_papers_policies_touch_only_the_batches_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = filled("bts")
    touched: list[int] = []
    take = BasicBatchManager.take

    def counting(self: BasicBatchManager, task: int, batches: int) -> list[object]:
        found = take(self, task, batches)
        touched.append(len(found))
        return found  # type: ignore[return-value]  # handed on as it is

    monkeypatch.setattr(BasicBatchManager, "take", counting)
    policy.next(0.0)
    assert touched == [1]


def test_dropping_thousands_is_one_decision() -> None:
    policy = filled("pack", firm=True)
    decision = policy.next(1e12)
    assert decision.idle
    assert sum(count for _, count in decision.drop) == 3 * QUERIES * BATCHES
