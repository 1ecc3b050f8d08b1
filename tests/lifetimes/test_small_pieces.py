"""Steps that make many pairs are run in stretches of time; here very few pairs are many, so that small random apps meet them too."""

from __future__ import annotations

import pytest
from oracle.drive import judged

from kigen.lifetimes import join, join_stretches, piece, sides


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides, "MOST_PAIRS", 2)
    monkeypatch.setattr(sides, "FEW_PAIRS", 0)
    monkeypatch.setattr(join, "FEW_PAIRS", 0)
    monkeypatch.setattr(piece, "_FEW", 0)
    monkeypatch.setattr(join_stretches, "_FEWEST", 1)


@pytest.mark.parametrize("seed", range(7_000, 7_060))
def test_stretches_change_nothing(seed: int) -> None:
    assert judged(seed) == ""
