"""Reads from /proc how much CPU time a command and all processes below it have used. Linux only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

COMMAND, JVM, READER, WORKERS = "command", "jvm", "reader", "workers"
ROLES = (COMMAND, JVM, READER, WORKERS)
_READER = "python_streaming_source_runner"  # the module in which Spark runs a streaming reader
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ProcessTime:
    """One process: its parent, what it is, and the CPU seconds of all its threads."""

    parent: int
    name: str
    arguments: str
    cpu_s: float


def read_process(pid: int, proc: Path = Path("/proc")) -> ProcessTime | None:
    """Returns a process; None if it is gone."""
    try:
        before, _, rest = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
        arguments = (proc / str(pid) / "cmdline").read_text(encoding="utf-8", errors="replace").replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = rest.split()
    used = (int(fields[11]) + int(fields[12])) * _TICK_S
    return ProcessTime(int(fields[1]), before.partition("(")[2], arguments, used)


def all_processes(proc: Path = Path("/proc")) -> dict[int, ProcessTime]:
    found = {int(name): read_process(int(name), proc) for name in os.listdir(proc) if name.isdigit()}
    return {pid: process for pid, process in found.items() if process is not None}


def below(processes: dict[int, ProcessTime], root: int) -> dict[int, str]:
    """Returns the role of a command and of each process below it."""
    roles = {root: COMMAND}
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        for pid, process in processes.items():
            if process.parent != parent or pid in roles:
                continue
            roles[pid] = JVM if process.name == "java" else READER if _READER in process.arguments else WORKERS
            waiting.append(pid)
    return roles


def used_percent(
    before: dict[int, ProcessTime], after: dict[int, ProcessTime], root: int, s: float
) -> dict[str, float]:
    """Returns what each role has used of a core in `s` seconds, in percent. New processes count from their start."""
    used = dict.fromkeys(ROLES, 0.0)
    for pid, role in below(after, root).items():
        since = before[pid].cpu_s if pid in before else 0.0
        used[role] += 100 * (after[pid].cpu_s - since) / s
    return used
