"""Random apps without Spark: text, binder and kernel against the oracle, in both methods, with random cuts into
blocks."""

from __future__ import annotations

import pytest
from oracle.drive import judged
from seeds import seeds


@pytest.mark.parametrize("seed", seeds(100, 300))
def test_random_app(seed: int) -> None:
    report = judged(seed)
    assert not report, report
