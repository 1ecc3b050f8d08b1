"""Runs `kigen run app.cql` as a process that is killed and started again. Its output on standard error is kept."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kills import jvm_of

PATIENCE_S = 240
IS_SOAK = bool(os.environ.get("KIGEN_SOAK"))


def seeded() -> random.Random:
    """Returns random numbers whose seed is printed, and may be given by KIGEN_SEED."""
    seed = int(os.environ.get("KIGEN_SEED", time.time_ns() % 1_000_000))
    print(f"KIGEN_SEED={seed}")
    return random.Random(seed)


class LiveCommand:
    """The command in a folder that holds `app.cql`; its checkpoint is `state`, its output `out`."""

    def __init__(self, folder: Path, app: str, **environment: str) -> None:
        self._folder, self._environment = folder, {**os.environ, **environment}
        (folder / "app.cql").write_text(app, encoding="utf-8")
        self._errors = folder / "errors.txt"
        self._errors.touch()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "kigen.cli.main", "run", "app.cql", "--checkpoint", "state", "--output", "out"]
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                env=self._environment,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def errors(self) -> str:
        return self._errors.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, there: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
        """Waits until it is there. Fails if the run ends before."""
        assert self._process is not None
        until = time.monotonic() + within_s
        while not there():
            assert self._process.poll() is None, self.errors()
            assert time.monotonic() < until, self.errors()
            time.sleep(0.05)

    def kill(self, with_jvm: bool = True) -> None:
        """Kills the command, and Spark's JVM if it is to go at the same moment. Else it ends by itself soon after."""
        if self._process is None or self._process.poll() is not None:
            return
        jvm = jvm_of(self._folder / "state") if with_jvm else None
        self._process.kill()
        self._process.wait()
        if jvm is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(jvm, signal.SIGKILL)

    def stop(self) -> None:
        """Ends the run as Ctrl-C does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(PATIENCE_S) == 0, self.errors()
