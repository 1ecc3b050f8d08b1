"""Starts every replica of every node as a process on this machine, restarts those that die, and ends them all.

Invariant: when `Processes` is left, none of its processes is running. A replica that was killed, or whose Spark was
killed, is started again after a while and continues from its files, unless it never gets to work
(kigen.cli.nodes.restarts). A replica that fails by itself ends the whole run with its last log lines. If the other
replica of its node works, the failed one is tried again instead: its disk may be full now and have room later.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from kigen.cli.nodes.node_command import GO, SPARK_DIED, STOPPED
from kigen.cli.nodes.placing import NodesArguments
from kigen.cli.nodes.restarts import NEVER_WORKED, Restarts
from kigen.cli.nodes.serving import ANY_PORT
from kigen.cli.nodes.status_command import Status
from kigen.cli.stop_request import StopRequest
from kigen.durable import open_log, rotate_log
from kigen.engine.errors import ArgumentError
from kigen.engine.nodes.node_run import DELIVERING
from kigen.spark.watch.memory import LEAST_MEMORY, limit_bytes, size_text

_POLL_S = 0.5
_RETRY_S = 10.0
_END_S = 60.0
_LAST_LINES = 5
_NOT_WORKING_YET = ("starting", "ready")  # states that a node reports before it works
_DEATHS = {STOPPED: "SIGTERM", SPARK_DIED: "its Spark died"}
_Show = Callable[[Collection[str]], Mapping[str, Status | None]]


class NodeFailed(RuntimeError):
    """A node ended with an error: exit code 1."""


class NodeRefused(ValueError):
    """A node found its arguments or its nodes file wrong: exit code 2."""


class Processes:
    """Processes of a run.

    `replicas` maps the name of each process to its node and the number of its replica. `readers` maps a node to the
    nodes that read from it. `serving`: nodes that serve their own run over HTTP.
    """

    def __init__(
        self,
        arguments: NodesArguments,
        replicas: Mapping[str, tuple[str, int]],
        readers: Mapping[str, Collection[str]] | None = None,
        serving: Collection[str] = (),
    ) -> None:
        self._serving = set(serving)
        self._arguments, self._replicas, self._readers = arguments, replicas, readers or {}
        self._done: set[str] = set()  # names of nodes
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._restarts = Restarts()
        self._restart_at: dict[str, float] = {}  # replicas that were killed
        self._retry_at: dict[str, float] = {}  # replicas that failed while the other replica of their node works
        self._go = arguments.state_dir / GO

    def __enter__(self) -> Processes:
        self._go.unlink(missing_ok=True)
        for name in self._replicas:
            self._start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + _END_S
        for process in self._running.values():
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, stopped: StopRequest, show: _Show) -> bool:
        """Watches the processes. Returns True when all nodes are done, False when a stop was requested.

        `show` takes the names of processes that should run, displays them and returns what each reports.
        """
        while self._running or self._restart_at:
            if stopped.wait(_POLL_S):
                return False
            for name, process in list(self._running.items()):
                code = process.poll()
                if code is None or name not in self._running:
                    continue
                del self._running[name]
                if code < 0 or code in (STOPPED, SPARK_DIED):
                    self._killed(name, _DEATHS.get(code) or signal.Signals(-code).name)
                elif code:
                    self._failed(name, code)
                else:
                    self._end(self._replicas[name][0])
            self._start_due()
            for name in self._replicas:
                rotate_log(self._log(name))
            reports = show({**self._running, **self._retry_at, **self._restart_at})
            for name, about in reports.items():
                if about is not None and name in self._running and about["state"] not in _NOT_WORKING_YET:
                    self._restarts.works(name, time.monotonic())
            states = [(self._replicas[name][0], about["state"]) for name, about in reports.items() if about is not None]
            for node in unread(self._readers, self._done, states):
                self._end(node)
            awaited = [about for name, about in reports.items() if name not in self._retry_at]
            if not self._go.exists() and all(about is not None and about["state"] != "starting" for about in awaited):
                self._go.touch()
        return True

    def _failed(self, name: str, code: int) -> None:
        message = f"node {name} ended with code {code}:\n{self._last_lines(name)}"
        if code == 2:
            raise NodeRefused(message)
        others = [
            other
            for other in (*self._running, *self._restart_at)
            if self._replicas[other][0] == self._replicas[name][0]
        ]
        if not others:
            raise NodeFailed(message)
        self._retry_at[name] = time.monotonic() + _RETRY_S
        sys.stderr.write(f"{message}\n{others[0]} works on; {name} is tried again in {_RETRY_S:g} s\n")

    def _start_due(self) -> None:
        for waiting in (self._retry_at, self._restart_at):
            for name, at in list(waiting.items()):
                if time.monotonic() >= at:
                    del waiting[name]
                    self._start(name)

    def _killed(self, name: str, by: str) -> None:
        wait_s = self._restarts.died(name, time.monotonic())
        if wait_s is None:
            raise NodeFailed(
                f"node {name} was killed {NEVER_WORKED} times before it worked ({by}); the end of its log:\n"
                f"{self._last_lines(name)}\n"
                f"If the system sent {by} (too little memory?), fix that and run the same command again: it continues"
            )
        self._restart_at[name] = time.monotonic() + wait_s
        sys.stderr.write(f"node {name} was killed ({by}); starting it again in {wait_s:g} s\n")

    def _end(self, node: str) -> None:
        """Ends all replicas of a node, because one of them is done or all its readers are: everything is delivered."""
        self._done.add(node)
        self._retry_at = {name: at for name, at in self._retry_at.items() if self._replicas[name][0] != node}
        self._restart_at = {name: at for name, at in self._restart_at.items() if self._replicas[name][0] != node}
        for name, process in list(self._running.items()):
            if self._replicas[name][0] == node:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(_END_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                del self._running[name]

    def _start(self, name: str) -> None:
        a, (node, replica) = self._arguments, self._replicas[name]
        command = [
            sys.executable,
            "-m",
            "kigen.cli.main",
            "node",
            node,
            str(a.app_file),
            "--nodes",
            str(a.nodes_file),
            "--together",
        ]
        command += ["--replica", str(replica)]
        command += [
            "--state",
            str(a.state_dir),
            "--policy",
            a.policy,
            "--allocate",
            a.allocate,
            "--time-limit",
            str(a.time_limit_s),
        ]
        command += ["--memory", str(memory_share(a.memory, len(self._replicas)))]
        if node in self._serving:
            command += [f"--serve={ANY_PORT}", *([] if a.keep_results is None else ["--keep-results", a.keep_results])]
        for option, value in (("--profile", a.profile), ("--output", a.output), ("--duration", a.duration)):
            command += [] if value is None else [option, str(value)]
        command += [word for setting in a.settings for word in ("--set", setting)]
        log = self._log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        # In its own process session, so that Ctrl-C reaches only this process, which then ends the others in order.
        with open_log(log) as file:
            self._running[name] = subprocess.Popen(
                command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def _log(self, name: str) -> Path:
        return self._arguments.state_dir / name / "log"

    def _last_lines(self, name: str) -> str:
        lines = self._log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:]) or f"(its log is empty: {self._log(name)})"


def memory_share(memory: str, processes: int) -> int:
    """Returns the memory of one process: all run on this machine and share it equally. Raises ArgumentError."""
    share = limit_bytes(memory) // max(1, processes)
    if share < LEAST_MEMORY:
        raise ArgumentError(
            f"--memory {memory} is too little for {processes} processes of nodes: "
            f"each needs {size_text(LEAST_MEMORY)} or more"
        )
    return share


def unread(
    readers: Mapping[str, Collection[str]], done: Collection[str], states: Iterable[tuple[str, str]]
) -> list[str]:
    """Returns the nodes that wait to deliver although all their readers are done.

    A node that was killed when its last reader finished does not know that nobody reads from it any more.
    """
    waiting = dict.fromkeys(node for node, state in states if state == DELIVERING and node not in done)
    return [node for node in waiting if readers.get(node) and all(reader in done for reader in readers[node])]
