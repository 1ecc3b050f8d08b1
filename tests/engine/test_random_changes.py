"""Random changes of random apps, without Spark: the lines of each query are those of a run alone from its start."""

from __future__ import annotations

import pytest
from oracle.change import judged_changes


@pytest.mark.parametrize("seed", range(30))
def test_random_change(seed: int) -> None:
    report, _, _ = judged_changes(seed, ("dt", "nt")[seed % 2])
    assert not report, report
