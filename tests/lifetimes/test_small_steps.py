"""Large inputs are processed in pieces. Here the pieces are tiny, so that small random apps have several, too."""

from __future__ import annotations

import pytest
from oracle.drive import judged
from seeds import seeds

from kigen.lifetimes import runtime


@pytest.mark.parametrize("seed", seeds(15, 30, first=5_000))
def test_pieces_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "STEP_TUPLES", 3)
    assert judged(seed) == ""
