"""A node that is full to the last digit is refused quickly (a random plan once needed an array of petabytes)."""

from __future__ import annotations

from kigen.placement.solver.demand import sporadic, within


def test_a_full_node_is_refused_at_once() -> None:
    task = sporadic(20_000.0, 0.7 * 20_000.0 * (1 - 1e-13), 20_000.0, 7_000.0)
    assert 0.0 < 0.7 - task.rate < 1e-12
    assert not within([task], 1.0, 0.7)
    assert within([sporadic(20_000.0, 0.4 * 20_000.0, 20_000.0, 7_000.0)], 1.0, 0.9)
