"""Records that the user asked the command to stop (Ctrl-C or SIGTERM), and lets the main thread wait for that.

A signal handler runs in the middle of whatever the main thread does. `threading.Event` takes a lock in `set` and in
`wait`, so a signal that arrives while the main thread is about to wait would block on that lock for ever. `StopRequest`
has no lock: it is a flag, and waiting is a sequence of short sleeps.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_SLEEP_S = 0.02
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """A flag that a signal handler sets."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout_s: float) -> bool:
        """Waits until the flag is set or the time is over. Returns whether it is set."""
        until = time.monotonic() + timeout_s
        while not self._is_set and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _SLEEP_S))
        return self._is_set


@contextmanager
def interruptible() -> Iterator[StopRequest]:
    """Turns signals into a stop request, and restores the earlier handlers afterwards."""
    stopped = StopRequest()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    take_signals(stopped)
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def take_signals(stopped: StopRequest) -> None:
    """Installs the handlers: the first signal asks for an orderly end, the second one ends the process at once."""

    def handle(number: int, _: object) -> None:
        if stopped.is_set():
            sys.stderr.write("ended at once\n")
            sys.exit(1)
        stopped.set()

    for number in _SIGNALS:
        signal.signal(number, handle)
