"""Ensures that one run at a time uses a checkpoint: `owner.json` names its process, and that of Spark.

Invariant: while the file names a live process, no other process writes below the checkpoint. The JVM of a killed
command may live on for a moment and finish its work: a new run waits for its end.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

from kigen.durable import replace

_FILE = "owner.json"
_WAIT_S = 60.0


class CheckpointInUse(RuntimeError):
    """Another run uses the checkpoint. `kigen` exits with code 1."""


class Owner:
    """Ownership of one checkpoint by this process."""

    def __init__(self, checkpoint: Path) -> None:
        self._path = checkpoint / _FILE
        self._mine = False

    def acquire(self) -> None:
        """Takes the checkpoint for this process. Raises CheckpointInUse.

        The lock is for two commands that look at the same moment; it ends with the process that holds it.
        """
        with open(self._path.with_name("owner.lock"), "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._acquire()

    def _acquire(self) -> None:
        held = self._read()
        if held:
            if _alive(held.get("process")):
                pid = held["process"]["pid"]
                raise CheckpointInUse(
                    f"the checkpoint {self._path.parent} is in use by process {pid}: stop that run, or use another "
                    "directory"
                )
            self._await_end(held.get("jvm"))
        replace(self._path, json.dumps({"process": _identity(os.getpid())}).encode())
        self._mine = True

    def add_jvm(self, pid: int | None) -> None:
        """Records the process of Spark's driver, which may outlive this one."""
        held = {"process": _identity(os.getpid()), "jvm": None if pid is None else _identity(pid)}
        replace(self._path, json.dumps(held).encode())

    def release(self) -> None:
        """Gives the checkpoint back, if this process has it."""
        if self._mine:
            self._path.unlink(missing_ok=True)
            self._mine = False

    def _read(self) -> dict[str, Any] | None:
        try:
            value = json.loads(self._path.read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def _await_end(self, jvm: dict[str, Any] | None) -> None:
        deadline = time.monotonic() + _WAIT_S
        while _alive(jvm):
            assert jvm is not None
            if time.monotonic() > deadline:
                where = f"the checkpoint {self._path.parent}"
                raise CheckpointInUse(
                    f"{where} is still in use by Spark, process {jvm['pid']}, of a run that was killed: end it first"
                )
            time.sleep(0.05)


def _identity(pid: int) -> dict[str, Any]:
    return {"pid": pid, "since": _started(pid)}


def _alive(process: dict[str, Any] | None) -> bool:
    """Returns whether exactly this process lives: the system may have given its id to another one since."""
    if process is None:
        return False
    try:
        os.kill(process["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return process["since"] is None or _started(process["pid"]) == process["since"]


def _started(pid: int) -> str | None:
    """Returns when the process started, as Linux reports it; None elsewhere. A zombie counts as ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "ended" if words[0] == "Z" else words[19]
