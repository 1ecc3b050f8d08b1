"""One Spark for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kigen.engine import Engine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    with Engine() as started:
        yield started
