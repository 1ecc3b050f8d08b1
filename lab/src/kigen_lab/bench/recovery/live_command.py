"""Runs `kigen run` on a live stream as a process of its own, and reads from its output file how far results have come.

Results carry the time from which they are true, which is their tuple's scheduled time. So the last whole line of the
file says what has come out, and the clock says how far behind that is. Cost: a read of the file's last kilobytes per
look.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

_LOOK_S = 0.01
_TAIL = 4096
APP = """
CREATE STREAM cars (id BIGINT, room STRING, speed DOUBLE)
  FROM synthetic (rate = {rate}, seed = 7, id = 'sequence', room = 'zipf(1.1, 100)', speed = 'uniform(0, 100)');
CREATE QUERY fast AS ISTREAM(SELECT id, speed FROM cars [NOW] WHERE speed > 99) INTO csv (path = 'fast.csv');
CREATE QUERY means AS SELECT room, AVG(speed) AS mean, COUNT(*) AS n FROM cars [RANGE 1 SECONDS] GROUP BY room
  HAVING AVG(speed) > 80 INTO csv (path = 'means.csv');
"""


class CommandEnded(RuntimeError):
    """The command has ended, or has no results, where it should go on."""


class LiveCommand:
    """One start of the command in a folder that holds the app, its checkpoint and its outputs."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder, self._output = folder, folder / "fast.csv"
        self.began_s = time.monotonic()
        command = [sys.executable, "-m", "kigen.cli.main", "run", "app.cql", "--checkpoint", "checkpoint", *options]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        with open(folder / "log.txt", "ab") as log:
            self._process = subprocess.Popen(
                command, cwd=folder, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def last_us(self) -> int:
        """Returns the time of the last whole line; 0: there is none."""
        try:
            with open(self._output, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL))
                return last_line_us(file.read())
        except FileNotFoundError:
            return 0

    def behind_us(self) -> float:
        """Returns how old the last result is."""
        return time.time_ns() / 1000 - self.last_us()

    def wait_for(self, reached: Callable[[], bool], limit_s: float, what: str) -> float:
        """Waits until `reached`. Returns the seconds since the command's start."""
        until = time.monotonic() + limit_s
        while not reached():
            if self._process.poll() is not None:
                raise CommandEnded(f"the command ended with code {self._process.returncode} before {what}")
            if time.monotonic() > until:
                raise CommandEnded(f"no {what} within {limit_s:.0f} s")
            time.sleep(_LOOK_S)
        return time.monotonic() - self.began_s

    def kill(self) -> None:
        """Sends SIGKILL to all processes of the command."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def terminate(self, limit_s: float) -> tuple[float, int]:
        """Sends SIGTERM to the command. Returns the seconds until it has ended, and its exit code."""
        began_s = time.monotonic()
        self._process.terminate()
        code = self._process.wait(limit_s)
        return time.monotonic() - began_s, code

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()


def last_line_us(tail: bytes) -> int:
    """Returns the `_at` of the last whole line in microseconds since the epoch; 0: there is no such line."""
    lines = tail.split(b"\n")[:-1]
    for line in reversed(lines):
        text = line.rpartition(b",")[2].decode("ascii", "replace").strip()
        try:
            at = datetime.fromisoformat(text)
        except ValueError:  # the header, or a line whose start is cut off
            continue
        return round(at.timestamp() * 1e6)
    return 0
