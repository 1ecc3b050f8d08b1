"""`INTO postgres` passes the suite for connectors, on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kigen_lab.servers.postgres_server import PostgresServer

from kigen.testing.connector import SINK_CHECKS, SinkCase, Target

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    started = PostgresServer()
    started.start()
    yield started
    started.remove()


@pytest.mark.parametrize("check", SINK_CHECKS)
@pytest.mark.parametrize("kind", ["relation", "stream", "current"])
def test_the_sink(
    server: PostgresServer, kind: str, check: Callable[[SinkCase], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIGEN_TEST_PG", server.url)
    times = {"relation": ["_from", "_to"], "stream": ["_at"], "current": []}[kind]
    names = ["id", "name", "value", *times]

    def target(name: str) -> Target:
        def read() -> list[dict[str, Any]]:
            return [dict(zip(names, row, strict=True)) for row in server.rows(f"SELECT {', '.join(names)} FROM {name}")]

        mode = ", mode = 'current', key = 'id'" if kind == "current" else ""
        return Target(f"postgres (url_env = 'KIGEN_TEST_PG', table = '{name}'{mode})", read)

    check(SinkCase(target, relation=kind != "stream"))
