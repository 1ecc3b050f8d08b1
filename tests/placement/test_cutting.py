"""Apps cut over nodes give the lines of the whole, whatever runs where."""

from __future__ import annotations

import pytest
from oracle.over_nodes import judged_over_nodes


@pytest.mark.parametrize("seed", range(120))
def test_random_app_over_nodes(seed: int) -> None:
    report = judged_over_nodes(seed)
    assert not report, report
