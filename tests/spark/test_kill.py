"""Runs that are killed at random moments and restarted end with the lines of an undisturbed run."""

from __future__ import annotations

from pathlib import Path

import pytest
from kills import check_kills

from kigen.engine import Engine


@pytest.mark.timeout(1800)
def test_killed_and_restarted_runs_end_with_the_same_lines(engine: Engine, tmp_path: Path) -> None:
    check_kills(engine, tmp_path, 3)  # live runs have eight more, their changes two, the soak a hundred
