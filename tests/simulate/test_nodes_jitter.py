"""Checks jittered costs: a repeated trial is the same, and factors are as asked for."""

from __future__ import annotations

import numpy as np
import pytest
from kigen_lab.simulate.nodes.cost_jitter import Jitter


def test_without_spread_only_the_nodes_factor_is_left() -> None:
    cost = Jitter({"slow": 1.2}).trial_of(("slow", "plain"), (1,))
    assert [cost("slow", "O", 1000.0), cost("plain", "O", 1000.0)] == [1200.0, 1000.0]


def test_a_trial_has_one_factor_a_node() -> None:
    cost = Jitter(trial=0.25).trial_of(("a", "b"), (1, 2))
    assert len({cost("a", "O", 1.0) for _ in range(5)}) == 1
    assert cost("a", "O", 1.0) != cost("b", "O", 1.0)


def test_calls_spread_around_the_nominal_cost() -> None:
    cost = Jitter(call=0.3).trial_of(("a",), (3,))
    drawn = np.log([cost("a", "O", 1.0) for _ in range(20_000)])
    assert np.median(drawn) == pytest.approx(0.0, abs=0.01)
    assert drawn.std() == pytest.approx(0.3, abs=0.01)


def test_a_seed_says_everything() -> None:
    jitter = Jitter({"a": 0.68}, 0.25, 0.3)
    one, same, other = (jitter.trial_of(("a",), (6, 15, trial)) for trial in (0, 0, 1))
    drawn = [one("a", "O", 1.0) for _ in range(5000)]
    assert drawn == [same("a", "P", 1.0) for _ in range(5000)]
    assert drawn[0] != other("a", "O", 1.0)
