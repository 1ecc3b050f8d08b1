"""Explains why a Python worker died: what ended it, what it was doing, and the likely reason.

Spark only reports that a worker "exited unexpectedly (crashed)". This module combines three sources: the worker's
report (kigen.spark.watch.worker_files) names what it was doing, a line in Spark's log that kigen.spark.session.daemon
writes gives its exit code, and the kernel's counters show whether the system has killed a process for lack of memory
since the run began.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from kigen.spark.watch.memory import size_text
from kigen.spark.watch.memory_text import holding_text, names_of
from kigen.spark.watch.worker_files import WorkerReport

_ENDED = "kigen: Python worker {pid} ended with {code}"
_OF_WORKERS = re.compile(
    r"Python worker (exited unexpectedly|keeps dying|failed to run)|EOFException|Connection reset|Broken pipe", re.I
)
_LOG_TAIL = 1 << 20
_WAIT_S = 1.0  # until the line appears in the log
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
_MUCH = 0.7  # share of the limit: a worker that used this much and was killed has probably run out of memory


def exit_line(pid: int, code: int) -> str:
    """Returns the log line for the end of a worker. A negative code is a signal."""
    return _ENDED.format(pid=pid, code=code)


def memory_kills(root: Path = Path("/")) -> int:
    """Counts the processes that the system has killed for lack of memory since it was started."""
    total = 0
    for file in ("proc/vmstat", "sys/fs/cgroup/memory.events"):
        try:
            lines = (root / file).read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    return total


def is_worker_death(failure: str) -> bool:
    """Checks whether an error message of Spark reports a dead Python worker."""
    return _OF_WORKERS.search(failure) is not None


def exit_code(pid: int, log: Path, wait_s: float = _WAIT_S) -> int | None:
    """Reads the exit code of a worker from the log. Returns None if the log does not have it."""
    found, until = re.compile(re.escape(_ENDED.format(pid=pid, code="")) + r"(-?\d+)"), time.monotonic() + wait_s
    while True:
        try:
            with open(log, "rb") as file:
                file.seek(max(0, log.stat().st_size - _LOG_TAIL))
                codes = found.findall(file.read().decode(errors="replace"))
        except OSError:
            return None
        if codes or time.monotonic() >= until:
            return int(codes[-1]) if codes else None
        time.sleep(0.05)


def describe_death(reports: Iterable[WorkerReport], log: Path, limit: int, for_memory: bool) -> str | None:
    """Describes the worker that died in one sentence. Returns None if all known workers are alive.

    `for_memory`: the system has killed a process for lack of memory since the run began.
    """
    dead = {
        report.pid: report
        for report in sorted(reports, key=lambda r: (r.since_us, r.phase != "idle"))
        if not report.alive
    }
    if not dead:
        return None
    endings = {pid: exit_code(pid, log) for pid in dead}
    pid = max(dead, key=lambda p: ((endings[p] or 0) < 0, dead[p].since_us))
    return death_text(dead[pid], endings[pid], log, limit, for_memory)


def describe_java_death(log: Path, for_memory: bool) -> str:
    """Describes the death of Spark's Java process."""
    why = "was killed by the system for lack of memory" if for_memory else "ended, or was killed"
    return (
        f"Spark's Java process {why} during the run; start the run again: with --checkpoint it continues; "
        f"Spark's log: {log}"
    )


def death_text(report: WorkerReport, code: int | None, log: Path, limit: int, for_memory: bool) -> str:
    doing, queries = report.doing
    what, reason, advice = _ended(report, code, limit, for_memory)
    state = f"; {holding_text(report.held[0])}" if report.held else ""
    return (
        f"a Python worker of {names_of(queries)} {what} while it was at work ({doing}): {reason}{state}; "
        f"{advice}; Spark's log: {log}"
    )


def _ended(report: WorkerReport, code: int | None, limit: int, for_memory: bool) -> tuple[str, str, str]:
    """Returns what happened, why, and what to do."""
    used = f"it used {size_text(report.private)} of {size_text(limit)}"
    again = "start the run again: with --checkpoint it continues from the last batch"
    if code is None:
        return "died", f"the reason is unknown ({used})", again
    if code >= 0:
        return f"ended by itself with code {code}", f"something in it called exit ({used})", again
    name = signal.Signals(-code).name
    if -code == signal.SIGKILL and (for_memory or report.private > _MUCH * limit):
        less = "use a smaller window, or set a smaller --memory, so that the run ends before the system kills it"
        return f"was killed by the system ({name})", f"it probably ran out of memory ({used})", less
    if -code in _CRASHES:
        return f"crashed ({name})", f"a native library has a bug ({used})", f"report it with the log, or {again}"
    return f"was killed ({name})", f"another process sent the signal; memory is not the likely reason ({used})", again
