"""Random apps cut over nodes, and replicas of their nodes, seeds that the fast tests do not try."""

from __future__ import annotations

import os

import pytest
from oracle.over_nodes import judged_over_nodes, unlike_replicas

pytestmark = pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="long: set KIGEN_SOAK=1")


@pytest.mark.parametrize("seed", [*range(20, 40), *range(1000, 1600)])
def test_random_app_over_nodes(seed: int) -> None:
    report = judged_over_nodes(seed)
    assert not report, report


@pytest.mark.parametrize("seed", [*range(220, 240), *range(2000, 2600)])
def test_replicas_send_the_same_rows(seed: int) -> None:
    report = unlike_replicas(seed)
    assert not report, report
