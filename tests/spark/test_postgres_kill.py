"""Results in PostgreSQL of a run that is killed and started again, while its server is killed, too: `append` has each
row once, and `current` what is true."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kigen_lab.servers.postgres_server import PostgresServer as Server
from live_command import IS_SOAK, LiveCommand, seeded

_KILLS = 10 if IS_SOAK else 1

APP = """
CREATE STREAM seen (n BIGINT, room STRING, ts TIMESTAMP) TIMESTAMP BY ts IDLE 1 SECONDS
  FROM csv (path = 'in/*.csv', follow = true);
CREATE QUERY history AS ISTREAM(SELECT n, room FROM seen [NOW]) INTO postgres (url_env = 'PG_URL', table = 'history');
CREATE QUERY tops AS SELECT room, MAX(n) AS top FROM seen [ROWS 40] GROUP BY room
  INTO postgres (url_env = 'PG_URL', table = 'tops', mode = 'current', key = 'room');
"""
_ROOMS = 17


def room_of(n: int) -> str:
    return f"r{n * n % _ROOMS}"


class Writer(threading.Thread):
    """Appends numbered rows to files until it is told to stop; begins a new file every 2,000 rows."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder, self.rows, self._done = folder, 0, threading.Event()
        folder.mkdir()

    def run(self) -> None:
        while not self._done.wait(0.05):
            path = self._folder / f"{self.rows // 2_000:05}.csv"
            now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            text = "" if path.exists() else "n,room,ts\n"
            text += "".join(f"{n},{room_of(n)},{now}\n" for n in range(self.rows, self.rows + 20))
            with path.open("a", encoding="utf-8") as file:
                file.write(text)
            self.rows += 20

    def end(self) -> int:
        self._done.set()
        self.join()
        return self.rows


def count(server: Server) -> int:
    exists = server.rows("SELECT to_regclass('history') IS NOT NULL")[0][0]
    return int(server.rows("SELECT count(*) FROM history")[0][0]) if exists else 0


@pytest.mark.timeout(900 if _KILLS == 1 else 0)
def test_append_and_current_survive_kills_once(tmp_path: Path) -> None:
    rng, server = seeded(), Server(fsync=True)
    server.start()
    command = LiveCommand(tmp_path, APP, PG_URL=server.url)
    writer = Writer(tmp_path / "in")
    try:
        command.start()
        writer.start()
        for kill in range(_KILLS):
            goal = count(server) + rng.randrange(1, 800)
            command.wait_for(lambda goal=goal: count(server) >= goal)
            time.sleep(rng.uniform(0, 1.0))
            command.kill(with_jvm=rng.random() < 0.5)
            if kill % 3 == 1:  # the server recovers while the run starts
                server.stop()
                server.start()
            command.start()
        goal = count(server) + 200
        command.wait_for(lambda: count(server) >= goal)
        server.stop()  # the run that goes on waits for it
        time.sleep(rng.uniform(0, 2.0))
        server.start()
        sent = writer.end()
        command.wait_for(lambda: count(server) >= sent)
        last = {room_of(n): n for n in range(sent - 40, sent)}
        command.wait_for(lambda: dict(server.rows("SELECT room, top FROM tops")) == last)
        command.stop()
        assert server.rows("SELECT n, room FROM history ORDER BY n") == [(n, room_of(n)) for n in range(sent)]
        assert server.rows("SELECT room, top FROM tops ORDER BY room") == sorted(last.items())
    finally:
        writer.end() if writer.is_alive() else None
        command.kill()
        server.remove()
