"""Live runs whose processes are killed inside epochs end with the lines of an undisturbed run."""

from __future__ import annotations

from pathlib import Path

import pytest
from round_kills import check_kills

from kigen.engine import Engine


@pytest.mark.timeout(1800)
def test_rounds_that_were_killed_are_made_again(engine: Engine, tmp_path: Path) -> None:
    check_kills(engine, tmp_path, 12)  # three of each kind of process; the soak has a hundred
