"""Measures from outside how long a count takes to reach a goal. A served run counts the tuples it has processed."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from kigen_lab.bench.worker import ContestantFailed

_POLL_S, _SILENT_S = 0.05, 180.0


def wait_for(count: Callable[[], int], goal: int, require: Callable[[], None] = lambda: None) -> float:
    """Returns when a count reaches the goal, by the monotonic clock. `require` raises if the contestant has ended.

    Raises ContestantFailed if the count does not grow for long.
    """
    last, grown = -1, time.monotonic()
    while True:
        found, now = count(), time.monotonic()
        if found >= goal:
            return now
        if found > last:
            last, grown = found, now
        require()
        if now - grown > _SILENT_S:
            raise ContestantFailed(f"{found:,} of {goal:,}, and nothing new for {_SILENT_S:.0f} s")
        time.sleep(_POLL_S)


class Processed:
    """Counts the tuples of a run whose results are committed, by its metrics."""

    def __init__(self, url: str, token: str) -> None:
        self._place, self._headers = urlsplit(url).netloc, {"Authorization": f"Bearer {token}"}

    def __call__(self) -> int:
        connection = http.client.HTTPConnection(self._place, timeout=30)
        connection.request("GET", "/metrics", headers=self._headers)
        text = connection.getresponse().read().decode()
        connection.close()
        found = re.search(r"^kigen_query_in_total\{[^}]*\} (\d+)", text, re.MULTILINE)
        return int(found[1]) if found else 0
