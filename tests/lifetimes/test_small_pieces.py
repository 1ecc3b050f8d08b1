"""Steps that make many pairs run in stretches of time. Here the limit is very low, so that small random apps have
stretches, too."""

from __future__ import annotations

import pytest
from oracle.drive import judged
from seeds import seeds

from kigen.lifetimes.joins import join, join_side, piece, stretches


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_side, "MOST_PAIRS", 2)
    monkeypatch.setattr(join_side, "FEW_PAIRS", 0)
    monkeypatch.setattr(join, "FEW_PAIRS", 0)
    monkeypatch.setattr(piece, "_FEW", 0)
    monkeypatch.setattr(stretches, "_FEWEST", 1)


@pytest.mark.parametrize("seed", seeds(30, 60, first=7_000))
def test_stretches_change_nothing(seed: int) -> None:
    assert judged(seed) == ""
