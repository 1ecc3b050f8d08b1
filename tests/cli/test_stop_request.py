"""Checks that a signal ends a run at any moment, even in the middle of a wait."""

from __future__ import annotations

import os
import subprocess
import sys

_PROGRAM = """
import os, signal, threading
from kigen.cli.stop_request import StopRequest
asked = StopRequest()
signal.signal(signal.SIGINT, lambda *_: asked.set())
for _ in range(100):
    asked._is_set = False
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
