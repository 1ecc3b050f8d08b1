"""The kill test at length: KIGEN_KILLS of them, 100 by default."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "spark"))

from kills import check_kills
from round_kills import check_kills as check_round_kills

from kigen.engine import Engine


def test_a_hundred_kills(tmp_path: Path) -> None:
    with Engine() as engine:
        check_kills(engine, tmp_path, int(os.environ.get("KIGEN_KILLS", "100")))


def test_a_hundred_kills_inside_epochs(tmp_path: Path) -> None:
    with Engine() as engine:
        check_round_kills(engine, tmp_path, int(os.environ.get("KIGEN_KILLS", "100")), seconds=60)
