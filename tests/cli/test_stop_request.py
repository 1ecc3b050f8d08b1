"""Checks that a signal ends a run at any moment, even in the middle of a wait."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

from kigen.cli.stop_request import StopRequest

_PROGRAM = """
import os, signal, threading
from kigen.cli.stop_request import StopRequest
signal.signal(signal.SIGINT, lambda *_: asked.set())
for _ in range(100):
    asked = StopRequest()
    threading.Timer(0.001, os.kill, (os.getpid(), signal.SIGINT)).start()
    while not asked.wait(0.00001):
        pass
print("ended")
"""


def test_a_signal_in_the_middle_of_a_wait_ends_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=240, check=True, env=os.environ.copy()
    )
    assert done.stdout == "ended\n"


def test_a_wait_ends_when_the_time_is_over_or_somebody_asks() -> None:
    asked = StopRequest()
    assert not asked.wait(0.001)
    threading.Timer(0.01, asked.set).start()
    assert asked.wait(60.0)
    asked.set()
    assert asked.is_set()
    assert asked.wait(60.0), "it stays"
