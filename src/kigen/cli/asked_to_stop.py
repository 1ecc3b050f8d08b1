"""Whether the user has asked for an end: set by a signal handler, waited for by the main thread.

A handler runs in the middle of whatever the main thread does. `threading.Event` takes a lock for `set` and for `wait`,
so a signal that comes while the main thread is about to wait would wait for itself, for ever. Here is no lock: a flag,
and a wait in short naps.
"""

from __future__ import annotations

import time

_NAP_S = 0.02


class AskedToStop:
    def __init__(self) -> None:
        self._asked = False

    def set(self) -> None:
        self._asked = True

    def is_set(self) -> bool:
        return self._asked

    def wait(self, timeout_s: float) -> bool:
        """Waits until it is set or the time is over; says whether it is set."""
        until = time.monotonic() + timeout_s
        while not self._asked and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _NAP_S))
        return self._asked
