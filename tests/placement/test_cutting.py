"""Apps that are cut over nodes give the same lines as the whole, wherever each operator runs."""

from __future__ import annotations

import pytest
from oracle.over_nodes import judged_over_nodes, unlike_replicas


@pytest.mark.parametrize("seed", range(20))
def test_random_app_over_nodes(seed: int) -> None:
    report = judged_over_nodes(seed)
    assert not report, report


@pytest.mark.parametrize("seed", [*range(200, 220), 253, 261])
def test_replicas_send_the_same_rows(seed: int) -> None:
    report = unlike_replicas(seed)
    assert not report, report
