"""Random outer, semi and anti joins without Spark, against DuckDB at every instant, in both methods, with random
cuts."""

from __future__ import annotations

import pytest
from oracle.drive import judged_joins
from seeds import seeds


@pytest.mark.parametrize("seed", seeds(60, 170))
def test_random_joins(seed: int) -> None:
    report = judged_joins(seed)
    assert not report, report
