"""INTO postgres through Spark: a current table after many batches, and again from the same checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from kigen_lab.servers.postgres_server import PostgresServer as Server

from kigen.engine import Engine
from kigen.lifetimes import EvaluationError

APP = """
CREATE STREAM readings (room STRING, temp BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'readings.csv');
CREATE QUERY tops AS SELECT room, MAX(temp) AS top FROM readings [ROWS 5] GROUP BY room
  INTO postgres (url_env = 'KIGEN_TEST_PG', table = 'tops', mode = 'current', key = 'room');
CREATE QUERY history AS SELECT room, temp FROM readings [ROWS 2] INTO postgres (url_env = 'KIGEN_TEST_PG', table = 'history');
"""
TWICE = APP.replace("MAX(temp) AS top FROM readings [ROWS 5] GROUP BY room", "temp AS top FROM readings [ROWS 5]")


@pytest.mark.timeout(300)
def test_current_and_append(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"r{i * i % 7}", i * 7 % 11, f"2026-01-01T00:{i // 60:02}:{i % 60:02}Z") for i in range(300)]
    (tmp_path / "readings.csv").write_text("room,temp,ts\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    (tmp_path / "app.cql").write_text(APP)
    server = Server()
    server.start()
    try:
        monkeypatch.setenv("KIGEN_TEST_PG", server.url)
        options = {"drain": True, "batch_rows": 40, "checkpoint": str(tmp_path / "ck"), "keep_results": False}
        for _ in range(2):  # the second run finds a finished checkpoint and leaves the tables as they are
            engine.run(tmp_path / "app.cql", **options)
            wanted = {room: max(temp for r, temp, _ in rows[-5:] if r == room) for room, _, _ in rows[-5:]}
            assert dict(server.rows("SELECT * FROM tops")) == wanted
            assert server.rows("SELECT count(*), count(_to) FROM history") == [(300, 298)]
        assert server.rows("SELECT target, rows FROM kigen_commits WHERE target = 'history'") == [("history", 300)]
        (tmp_path / "twice.cql").write_text(TWICE)
        with pytest.raises(EvaluationError, match="query tops: two rows have the key room = "):
            engine.run(tmp_path / "twice.cql", drain=True, keep_results=False)
    finally:
        server.remove()
