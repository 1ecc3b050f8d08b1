"""`kigen up`: every node of a placed app as a process here. Shows what they do, starts a killed one again, ends all in
good order.

Invariant: when it returns, none of its processes is left. A node that was killed, or whose Spark was, is started again
after a while and goes on from its files, unless it never comes to work (kigen.cli.restarts); one that failed of itself
ends them all, with what it said last, unless its other replica works on: then it is tried again (its disk may be full,
and have room again).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live

from kigen.cli.asked_to_stop import AskedToStop
from kigen.cli.display import closing_table
from kigen.cli.node_commands import (
    GO,
    REPORT,
    SPARK_DIED,
    STOPPED,
    NodesArguments,
    ask,
    describe,
    nodes_table,
    placed_parts,
    queues_table,
    replicas,
)
from kigen.cli.restarts import NEVER_WORKED, Restarts
from kigen.cli.run_command import interruptible
from kigen.durable import open_log, rotate_log
from kigen.engine.errors import ArgumentError
from kigen.engine.nodes.node_options import security_of
from kigen.engine.nodes.node_run import DELIVERING
from kigen.placement.cutting import parts_used
from kigen.placement.nodes_file.file import NodesFile
from kigen.spark.watch.memory import LEAST_MEMORY, limit_bytes, size_text

_POLL_S = 0.5
_PLAIN_EVERY_S = 5.0
_AGAIN_S = 10.0
_ENDING_S = 60.0
_STARTING = ("starting", "ready")  # what a node says of itself before it works


_DEATHS = {STOPPED: "SIGTERM", SPARK_DIED: "its Spark died"}


class NodeFailed(RuntimeError):
    """A node ended with an error: exit code 1."""


class NodeRefused(ValueError):
    """A node found its arguments or its nodes file wrong: exit code 2."""


def up_app(arguments: NodesArguments, report: Path | None) -> None:
    nodes, placed, parts = placed_parts(arguments)
    for note in placed.notes:
        sys.stderr.write(f"warning: {note}\n")
    used = parts_used(parts)
    for name in used:
        security_of(nodes, name, arguments.state_dir)  # what a node would refuse is refused before one is started
        sys.stderr.write("\n".join(describe(parts[name])) + "\n")
    sys.stderr.write(f"state: {arguments.state_dir}\n")
    wanted = {q.name: name for name in used for q in parts[name].app.queries if not q.sent}
    all_of_them = replicas(nodes, used)
    memory_share(arguments.memory, len(all_of_them))
    readers = {name: parts[name].read_by for name in used}
    with interruptible() as stopped, Processes(arguments, all_of_them, readers) as processes:
        display = _Display(nodes, arguments.state_dir, all_of_them)
        with display:
            finished = processes.run(stopped, display.show)
    merged = merge_reports(arguments.state_dir, wanted)
    if report is not None:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(json.dumps(merged, indent=2) + "\n", encoding="utf-8")
    if merged["queries"]:
        closing_table(merged, {})
    if not finished or not merged["finished"]:
        sys.stderr.write(f"stopped before the end; the same command goes on from {arguments.state_dir}\n")
    sys.stderr.write(f"logs of the nodes: {arguments.state_dir}/*/log\n")


class Processes:
    """`which`: each process's name, its node and its replica. `readers`: who reads from a node."""

    def __init__(
        self,
        arguments: NodesArguments,
        which: dict[str, tuple[str, int]],
        readers: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self._arguments, self._which, self._readers = arguments, which, readers or {}
        self._done: set[str] = set()  # nodes
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._restarts = Restarts()
        self._restart_at: dict[str, float] = {}  # killed
        self._again_at: dict[str, float] = {}  # failed, while their other replicas work
        self._go = arguments.state_dir / GO

    def __enter__(self) -> Processes:
        self._go.unlink(missing_ok=True)
        for name in self._which:
            self._start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + _ENDING_S
        for process in self._running.values():
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, stopped: AskedToStop, show: Any) -> bool:
        """Until all nodes are done (True), or an end is asked for."""
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
                    self._end(self._which[name][0])
            self._try_again()
            for name in self._which:
                rotate_log(self._log(name))
            told = show({**self._running, **self._again_at, **self._restart_at})
            for name, about in told.items():
                if about is not None and name in self._running and about["state"] not in _STARTING:
                    self._restarts.works(name, time.monotonic())
            states = [(self._which[name][0], about["state"]) for name, about in told.items() if about is not None]
            for node in unread(self._readers, self._done, states):
                self._end(node)
            awaited = [about for name, about in told.items() if name not in self._again_at]
            if not self._go.exists() and all(about is not None and about["state"] != "starting" for about in awaited):
                self._go.touch()
        return True

    def _failed(self, name: str, code: int) -> None:
        words = f"node {name} ended with code {code}:\n{self._last_words(name)}"
        if code == 2:
            raise NodeRefused(words)
        others = [
            other for other in (*self._running, *self._restart_at) if self._which[other][0] == self._which[name][0]
        ]
        if not others:
            raise NodeFailed(words)
        self._again_at[name] = time.monotonic() + _AGAIN_S
        sys.stderr.write(f"{words}\n{others[0]} works on; {name} is tried again in {_AGAIN_S:g} s\n")

    def _try_again(self) -> None:
        for waiting in (self._again_at, self._restart_at):
            for name, at in list(waiting.items()):
                if time.monotonic() >= at:
                    del waiting[name]
                    self._start(name)

    def _killed(self, name: str, by: str) -> None:
        wait_s = self._restarts.died(name, time.monotonic())
        if wait_s is None:
            words = (
                f"its last words:\n{self._last_words(name)}\nIf {by} is the system's (too little memory?), mend that; "
            )
            raise NodeFailed(
                f"node {name} was killed {NEVER_WORKED} times before it worked ({by}); {words}the same command goes "
                "on then"
            )
        self._restart_at[name] = time.monotonic() + wait_s
        sys.stderr.write(f"node {name} was killed ({by}); starting it again in {wait_s:g} s\n")

    def _end(self, node: str) -> None:
        """One of a node's replicas is done, or all who read from it are: all has been delivered, and it is not needed
        any more."""
        self._done.add(node)
        self._again_at = {name: at for name, at in self._again_at.items() if self._which[name][0] != node}
        self._restart_at = {name: at for name, at in self._restart_at.items() if self._which[name][0] != node}
        for name, process in list(self._running.items()):
            if self._which[name][0] == node:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(_ENDING_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                del self._running[name]

    def _start(self, name: str) -> None:
        a, (node, replica) = self._arguments, self._which[name]
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
        command += ["--memory", str(memory_share(a.memory, len(self._which)))]
        for option, value in (("--profile", a.profile), ("--output", a.output), ("--duration", a.duration)):
            command += [] if value is None else [option, str(value)]
        log = self._log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        with open_log(
            log
        ) as file:  # a session of its own: Ctrl-C reaches this process only, which then ends them in order
            self._running[name] = subprocess.Popen(
                command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def _log(self, name: str) -> Path:
        return self._arguments.state_dir / name / "log"

    def _last_words(self, name: str) -> str:
        lines = self._log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-5:]) or f"it said nothing (log: {self._log(name)})"


def memory_share(memory: str, processes: int) -> int:
    """All processes of the run are on this machine: each may use an equal part. Raises ArgumentError."""
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
    """Nodes that wait for nobody: a node that was killed when its last reader was done does not know that it was."""
    waiting = dict.fromkeys(node for node, state in states if state == DELIVERING and node not in done)
    return [node for node in waiting if readers.get(node) and all(reader in done for reader in readers[node])]


def merge_reports(state: Path, wanted: dict[str, str]) -> dict[str, Any]:
    """Of each query the report of the node where it is wanted; of the whole, the node that took longest. Latencies are
    end to end."""
    found = {}
    for name in dict.fromkeys(wanted.values()):
        file = state / name / REPORT
        if file.exists():
            found[name] = json.loads(file.read_text(encoding="utf-8"))
    slowest: dict[str, Any] = max(found.values(), key=lambda r: r["wall_s"], default={})
    whole = {key: slowest.get(key) for key in ("policy", "lifetime", "wall_s", "batch_ms")}
    queries = {
        query: {**found[node]["queries"][query], "node": node} for query, node in wanted.items() if node in found
    }
    finished = bool(found) and all(r["finished"] for r in found.values())  # else --duration was over
    return {**whole, "batches": sum(r["batches"] for r in found.values()), "queries": queries, "finished": finished}


class _Display:
    def __init__(self, nodes: NodesFile, state: Path, which: dict[str, tuple[str, int]]) -> None:
        self._nodes, self._state, self._which = nodes, state, which
        self._console = Console(stderr=True)
        self._live: Live | None = None
        self._told = time.monotonic()

    def __enter__(self) -> _Display:
        if self._console.is_terminal:
            self._live = Live(console=self._console, transient=True, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, running: dict[str, Any]) -> dict[str, dict[str, Any] | None]:
        told = {
            name: ask(self._nodes, self._state, *which) if name in running else {**_DONE, "node": name}
            for name, which in self._which.items()
        }
        if self._live is not None:
            self._live.update(Group(nodes_table(told), queues_table(told)))
        elif time.monotonic() - self._told >= _PLAIN_EVERY_S:
            self._told = time.monotonic()
            sys.stderr.write("; ".join(_plain(name, about) for name, about in told.items()) + "\n")
        return told


_DONE: dict[str, Any] = {"role": "-", "state": "done", "queries": {}, "queues": {}, "from": {}, "pid": os.getpid()}


def _plain(name: str, about: dict[str, Any] | None) -> str:
    if about is None:
        return f"{name}: does not answer"
    lines = sum(q["out"] for q in about["queries"].values() if not q["sent"])
    return (
        f"{name}: {about['state']}, {lines} lines, {sum(q['kept_tuples'] for q in about['queues'].values())} rows kept"
    )
