"""A node that is full to the last digit: refused, and not looked at for ever (a random plan asked for an array of petabytes)."""

from __future__ import annotations

from kigen.placement.demand import sporadic, within


def test_a_full_node_is_refused_at_once() -> None:
    tasks = [sporadic(20_000.0, 0.1 * 20_000.0, 20_000.0, 7_000.0) for _ in range(7)]
    assert sum(task.rate for task in tasks) < 0.7, "by rounding alone"
    assert not within(tasks, 1.0, 0.7)
    assert within(tasks[:4], 1.0, 0.7)
