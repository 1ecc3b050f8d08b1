"""Random apps with the newest constructs, without Spark: text, binder and kernel against DuckDB at every instant, in both
methods, with random cuts into blocks. The soak judges 5,000."""

from __future__ import annotations

import pytest
from oracle.drive import judged_newer
from seeds import seeds


@pytest.mark.parametrize("seed", seeds(75, 150))
def test_random_app(seed: int) -> None:
    report = judged_newer(seed)
    assert not report, report
