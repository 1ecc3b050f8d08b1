"""A stand-in for a run and a client with its token."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from standin import StandIn


@pytest.fixture
def run(tmp_path: Path) -> Iterator[StandIn]:
    made = StandIn(tmp_path)
    yield made
    if made.ingest is not None:
        made.ingest.close()
