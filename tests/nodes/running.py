"""`kigen up` as users run it: processes of its own, watched from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kigen_lab.servers.ports import free_ports

from kigen.cli.nodes.placing import load_nodes
from kigen.cli.nodes.status_command import ask
from kigen.engine import Engine

KIGEN = [sys.executable, "-m", "kigen.cli.main"]
SMALL = {"KIGEN_BATCH_ROWS": "25"}  # so that a csv file takes many batches, and something can happen in between
PATIENCE_S = 240.0


def nodes_text(names: str, rest: str) -> str:
    """Nodes a, b, ... at free ports, and the rest of the file as it is."""
    nodes = [
        f'[nodes.{name}]\naddress = "127.0.0.1:{port}"\n'
        for name, port in zip(names, free_ports(len(names)), strict=True)
    ]
    return "".join(nodes) + rest


def drained(app: Path, output: Path) -> None:
    """Runs the whole app in one place, on the session of this process: another start of Spark would show nothing more."""
    Engine().run(app, drain=True, output=str(output), keep_results=False)


class Up:
    """One `kigen up`, in `with`: ended in the end, whatever the test finds."""

    def __init__(self, app: Path, *more: str, env: dict[str, str] | None = None) -> None:
        self.nodes = app.with_name("nodes.toml")
        self.state = Path(more[more.index("--state") + 1]) if "--state" in more else self.nodes.with_suffix(".state")
        command = [*KIGEN, "up", str(app), "--nodes", str(self.nodes), *more]
        self._errors = open(app.with_name("up.err"), "w+", encoding="utf-8")  # noqa: SIM115 - closed in __exit__
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
        )

    def __enter__(self) -> Up:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE_S)
        self._errors.close()

    @property
    def said(self) -> str:
        return Path(self._errors.name).read_text(encoding="utf-8")

    def end(self) -> int:
        code = self.process.wait(PATIENCE_S)
        assert "Traceback" not in self.said, self.said
        return code

    def status(self) -> dict[str, Any]:
        command = [*KIGEN, "status", "--nodes", str(self.nodes), "--state", str(self.state), "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def until(self, there: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """What the nodes say when it has come so far: asked as `kigen status` asks, without the start of a process each
        time."""
        nodes = load_nodes(self.nodes)
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            told = {entry.name: ask(nodes, self.state, entry.name) for entry in nodes.nodes}
            if all(told.values()) and there(told):
                return told
            time.sleep(0.05)
        raise AssertionError(f"never seen: {what}; exit code {self.process.poll()}\n{self.said}")


def alive(pid: int) -> bool:
    """A dead one that nobody waited for counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids: list[int]) -> None:
    """Waits for their end."""
    deadline = time.monotonic() + PATIENCE_S
    while [pid for pid in pids if alive(pid)] and time.monotonic() < deadline:
        time.sleep(0.1)


def spark_of(state: Path) -> list[int]:
    """The JVMs of the nodes."""
    owners = [json.loads(path.read_bytes()) for path in state.glob("*/checkpoint/owner.json")]
    return [owner["jvm"]["pid"] for owner in owners if owner.get("jvm")]


def python_workers(jvm: int) -> list[int]:
    """The processes that a JVM's Python daemons have forked."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    daemons = [pid for pid, parent in parents.items() if parent == jvm]
    return [pid for pid, parent in parents.items() if parent in daemons]
