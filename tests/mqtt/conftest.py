"""A broker for each test that asks for one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kigen_lab.servers.mosquitto import Mosquitto as Broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    folder = tmp_path / "broker"
    folder.mkdir()
    made = Broker(folder)
    yield made
    made.stop()
