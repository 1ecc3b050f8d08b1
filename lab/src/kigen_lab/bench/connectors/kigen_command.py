"""Runs an app with the command, in processes of its own, as a user does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from kigen_lab.bench.worker import ContestantFailed

_START_S, _END_S = 180.0, 60.0


class KigenCommand:
    """One run of `kigen run`, with its checkpoint in `folder`. Without a given end it runs until it is stopped."""

    def __init__(
        self, text: str, folder: Path, *options: str, serve: bool = False, more: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "app.cql").write_text(text, encoding="utf-8")
        self.folder, self._log = folder, folder / "kigen.log"
        command = [sys.executable, "-m", "kigen.cli.main", "run", "app.cql", "--checkpoint", "checkpoint", *options]
        command += ["--serve", "127.0.0.1:0"] if serve else []
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                command, cwd=folder, stdout=log, stderr=log, env={**os.environ, **(more or {})}, start_new_session=True
            )

    def __enter__(self) -> KigenCommand:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    def served(self) -> tuple[str, str]:
        """Returns the address and the token of a run with `--serve`, when it serves."""
        until = time.monotonic() + _START_S
        while True:
            found = re.search(r"serving (http://\S+) \(token: (\S+)\)", self._log.read_text(encoding="utf-8"))
            if found:
                return found[1], (self.folder / found[2]).read_text(encoding="utf-8").strip()
            self.require()
            if time.monotonic() > until:
                raise ContestantFailed(f"kigen does not serve after {_START_S:.0f} s (log: {self._log})")
            time.sleep(0.05)

    def require(self) -> None:
        """Raises ContestantFailed if the run has ended."""
        if self._process.poll() is not None:
            last = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
            raise ContestantFailed(f"kigen ended with exit code {self._process.returncode}: {' | '.join(last)}")

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
