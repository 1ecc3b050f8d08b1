"""The process from which Spark forks its Python workers: it imports the operator once, so that workers start ready.

It also writes to Spark's log how each worker ended (kigen.spark.watch.worker_deaths reads it). Spark itself only sees
that a socket was closed.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import Any

from pyspark import daemon

from kigen.spark.operator import group_step
from kigen.spark.watch.step_watch import WORKER
from kigen.spark.watch.worker_deaths import exit_line

__all__ = ["group_step"]

_NICE = 5  # workers yield to admission and the sink, which work for fractions of a millisecond but are waited for


class _Signals:
    """Replaces the module `signal` in Spark's daemon, which would ignore how its children ended."""

    def signal(self, number: int, handler: Any) -> Any:
        ignored = number == signal.SIGCHLD and handler == signal.SIG_IGN
        return signal.signal(number, _reap if ignored else handler)

    def __getattr__(self, name: str) -> Any:
        return getattr(signal, name)


def _reap(*_: object) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        os.write(sys.stderr.fileno(), f"{exit_line(pid, os.waitstatus_to_exitcode(status))}\n".encode())


if __name__ == "__main__":
    os.environ[WORKER] = "1"
    os.nice(_NICE)
    setattr(daemon, "signal", _Signals())  # noqa: B010 - a module has no such attribute for type checkers
    gc.freeze()  # imported objects are never freed: the garbage collector of workers can skip them
    daemon.manager()
