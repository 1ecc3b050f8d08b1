"""Records that the user asked the command to stop (Ctrl-C or SIGTERM), and lets the main thread wait for that.

A signal handler runs in the middle of whatever the main thread does. `threading.Event` takes a lock in `set` and in
`wait`, so a signal that arrives while the main thread is about to wait would block on that lock for ever. `StopRequest`
has no lock: it is a pipe, and waiting is waiting for a byte in it. Cost: nothing while it waits.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """A flag that a signal handler sets."""

    def __init__(self) -> None:
        self._is_set = False
        self._reads, self._writes = os.pipe()  # one byte once it is set, which nobody reads

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            os.write(self._writes, b"s")

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout_s: float) -> bool:
        """Waits until the flag is set or the time is over. Returns whether it is set."""
        if not self._is_set:
            select.select([self._reads], [], [], timeout_s)
        return self._is_set

    def __del__(self) -> None:
        os.close(self._reads)
        os.close(self._writes)


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
