"""Runs a follower in a thread on the driver, so that records get the time at which they came, not that of a batch.

Invariant: an error of the follower ends the thread and is raised by the next question. Cost: two `stat`s per `POLL_S`
while nothing happens. Reading pauses while `AHEAD_ROWS` records wait that admission has not asked for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kigen.connectors.follow.follower import Follower
from kigen.connectors.follow.record_path import RecordPath

POLL_S = 0.01
AHEAD_ROWS = 1 << 20


class Watcher:
    """Polls a follower, which is made in the thread."""

    def __init__(self, name: str, make: Callable[[], Follower], call: Callable[[], None]) -> None:
        """Calls `call` when records have come, and when the thread has failed."""
        self._follower, self._call = make(), call
        self.lock = threading.Lock()  # guards the path
        self._failed: BaseException | None = None
        self._asked = 0
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=f"follow {name}", daemon=True)
        self._thread.start()

    @property
    def path(self) -> RecordPath:
        """Returns the path, to be used while `lock` is held; raises what ended the thread."""
        if self._failed is not None:
            raise self._failed
        return self._follower.path

    def asked(self, index: int) -> None:
        """Notes that admission has asked for the records before `index`."""
        self._asked = max(self._asked, index)

    def close(self) -> None:
        """Ends the thread after its next poll."""
        self._closed = True

    def _work(self) -> None:
        try:
            while not self._closed:
                busy = False
                if self._follower.path.end - self._asked < AHEAD_ROWS:
                    with self.lock:
                        busy = self._follower.poll(time.time_ns() // 1000)
                if busy:
                    self._call()
                time.sleep(0 if busy else POLL_S)
        except Exception as error:
            self._failed = error
            self._call()
