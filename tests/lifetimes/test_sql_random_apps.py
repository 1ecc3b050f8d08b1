"""Random apps with the newer parts of the language, without Spark: text, binder and kernel against the oracle, in both
methods, with random cuts into blocks."""

from __future__ import annotations

import pytest
from oracle.drive import judged_sql
from seeds import seeds


@pytest.mark.parametrize("seed", seeds(60, 180))
def test_random_app(seed: int) -> None:
    report = judged_sql(seed)
    assert not report, report
