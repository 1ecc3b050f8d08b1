"""Measures HTTP ingest: batches of JSON lines to a run with `--serve`, by some clients at once.

The rate is that of tuples that the run has acknowledged, which are durable then, and whose results come out meanwhile:
the time ends when the query has processed all of them.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from kigen_lab.bench.connectors.kigen_command import KigenCommand
from kigen_lab.bench.connectors.progress import Processed, wait_for
from kigen_lab.bench.worker import ContestantFailed

_ROWS, _CLIENTS = 500, 4
_APP = """
CREATE STREAM posted (id BIGINT, speed DOUBLE) FROM http ();
CREATE QUERY fast AS ISTREAM(SELECT id, speed FROM posted [NOW] WHERE speed > 35);
"""


class _Client(threading.Thread):
    """Posts batches over one connection until it is told to end."""

    def __init__(self, url: str, token: str, place: int) -> None:
        super().__init__(daemon=True)
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/x-ndjson"}
        rows = (f'{{"id": {place * _ROWS + n}, "speed": {n / 7:.3f}}}' for n in range(_ROWS))
        self._body = "\n".join(rows).encode()
        self.ended, self.accepted, self.error = threading.Event(), 0, ""

    def run(self) -> None:
        while not self.ended.is_set():
            self._connection.request("POST", "/streams/posted", self._body, self._headers)
            answer = self._connection.getresponse()
            found = json.loads(answer.read())
            if answer.status == 200:
                self.accepted += found["accepted"]
            elif answer.status in (429, 503):  # full: as asked, later
                time.sleep(0.1)
            else:
                self.error = f"{answer.status}: {found}"
                return


def http_rate(seconds: float, folder: Path) -> float:
    """Returns the tuples per second of one run."""
    with KigenCommand(_APP, folder, serve=True) as run:
        url, token = run.served()
        processed = Processed(url, token)
        first = _Client(url, token, 0)  # shows that the run counts
        first.start()
        wait_for(processed, 1, run.require)
        first.ended.set()
        first.join()
        wait_for(processed, first.accepted, run.require)
        clients = [_Client(url, token, place) for place in range(_CLIENTS)]
        began = time.monotonic()
        for client in clients:
            client.start()
        time.sleep(seconds)
        for client in clients:
            client.ended.set()
        for client in clients:
            client.join()
            if client.error:
                raise ContestantFailed(f"POST: {client.error}")
        total = sum(client.accepted for client in clients)
        return total / (wait_for(processed, first.accepted + total, run.require) - began)
