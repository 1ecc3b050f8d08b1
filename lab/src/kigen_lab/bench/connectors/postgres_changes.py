"""Measures `INTO postgres` with `mode = 'current'`: each tuple changes the row of one of many keys.

The stream is generated, faster than the output can follow. The server keeps its own settings, `fsync` on. A change is
one tuple: the newest row of its key takes the place of the one before.
"""

from __future__ import annotations

import time
from pathlib import Path

from kigen_lab.bench.connectors.kigen_command import KigenCommand
from kigen_lab.bench.connectors.progress import Processed, wait_for
from kigen_lab.servers.postgres_server import PostgresServer

_APP = """
CREATE STREAM cars (id BIGINT, speed DOUBLE)
  FROM synthetic (rate = {rate}, id = 'zipf(1.01, {keys})', speed = 'uniform(0, 100)', seed = 7);
CREATE QUERY newest AS SELECT id, speed FROM cars [PARTITION BY id ROWS 1]
  INTO postgres (url_env = 'KIGEN_BENCH_PG', table = 'newest', mode = 'current', key = 'id');
"""


def postgres_rate(rate: int, keys: int, seconds: float, folder: Path) -> tuple[float, int]:
    """Returns the changes per second of one run, and the keys that the table has at the end."""
    server = PostgresServer(fsync=True)
    try:
        server.start()
        text = _APP.format(rate=rate, keys=keys)
        with KigenCommand(text, folder, serve=True, more={"KIGEN_BENCH_PG": server.url}) as run:
            processed = Processed(*run.served())
            wait_for(processed, rate, run.require)
            before, began = processed(), time.monotonic()
            time.sleep(seconds)
            found = (processed() - before) / (time.monotonic() - began)
        return found, int(server.rows("SELECT count(*) FROM newest")[0][0])
    finally:
        server.remove()
