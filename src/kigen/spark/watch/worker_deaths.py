"""Names a Python worker that died under a run: what ended it, what it was doing, and what the likely reason is.

Spark only says that a worker "exited unexpectedly (crashed)". The worker's crumb (kigen.spark.watch.worker_files) says
what it was at, Spark's log how it ended (kigen.spark.session.daemon writes that), and the system's counters whether it
has killed for memory since the run began.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from kigen.spark.watch.memory import size_text
from kigen.spark.watch.memory_text import holding_text, names_of
from kigen.spark.watch.worker_files import Crumb

_ENDED = "kigen: Python worker {pid} ended with {code}"
_OF_WORKERS = re.compile(
    r"Python worker (exited unexpectedly|keeps dying|failed to run)|EOFException|Connection reset|Broken pipe", re.I
)
_LOG_TAIL = 1 << 20
_WAIT_S = 1.0  # for the log to have it
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
_MUCH = 0.7  # of the limit: a worker that held so much and was killed ran out of memory


def ending(pid: int, code: int) -> str:
    """The line of the log: a negative code is a signal."""
    return _ENDED.format(pid=pid, code=code)


def kills_for_memory(root: Path = Path("/")) -> int:
    """How many processes the system has killed for want of memory since it was started."""
    total = 0
    for file in ("proc/vmstat", "sys/fs/cgroup/memory.events"):
        try:
            lines = (root / file).read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    return total


def of_a_worker(failure: str) -> bool:
    """Whether Spark's words are of a worker that is gone."""
    return _OF_WORKERS.search(failure) is not None


def exit_code(pid: int, log: Path, wait_s: float = _WAIT_S) -> int | None:
    """How the worker ended, as the log says; None if it does not."""
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


def died(crumbs: Iterable[Crumb], log: Path, limit: int, for_memory: bool) -> str | None:
    """One sentence on the worker that died; None if all that are known live. `for_memory`: the system has killed since
    the run began."""
    dead = {
        crumb.pid: crumb for crumb in sorted(crumbs, key=lambda c: (c.since_us, c.phase != "idle")) if not crumb.alive
    }
    if not dead:
        return None
    endings = {pid: exit_code(pid, log) for pid in dead}
    pid = max(dead, key=lambda p: ((endings[p] or 0) < 0, dead[p].since_us))
    return sentence(dead[pid], endings[pid], log, limit, for_memory)


def java_died(log: Path, for_memory: bool) -> str:
    """Spark's own process does not answer any more."""
    why = "was killed by the system for want of memory" if for_memory else "ended, or was killed"
    return (
        f"Spark's Java process {why} while the run was at work; start it again: with --checkpoint it goes on; "
        f"Spark's log: {log}"
    )


def sentence(crumb: Crumb, code: int | None, log: Path, limit: int, for_memory: bool) -> str:
    doing, queries = crumb.doing
    what, reason, advice = _ended(crumb, code, limit, for_memory)
    state = f"; {holding_text(crumb.held[0])}" if crumb.held else ""
    return (
        f"a Python worker of {names_of(queries)} {what} while it was at work ({doing}): {reason}{state}; "
        f"{advice}; Spark's log: {log}"
    )


def _ended(crumb: Crumb, code: int | None, limit: int, for_memory: bool) -> tuple[str, str, str]:
    """What happened, why, and what to do."""
    used = f"it used {size_text(crumb.private)} of {size_text(limit)}"
    again = "start the run again: with --checkpoint it goes on from the last batch"
    if code is None:
        return "died", f"the reason is not known ({used})", again
    if code >= 0:
        return f"ended by itself with code {code}", f"something in it called exit ({used})", again
    name = signal.Signals(-code).name
    if -code == signal.SIGKILL and (for_memory or crumb.private > _MUCH * limit):
        less = "use a smaller window, or give a smaller --memory, at which the run ends before the system kills"
        return f"was killed by the system ({name})", f"it probably ran out of memory ({used})", less
    if -code in _CRASHES:
        return f"crashed ({name})", f"a native library has a fault ({used})", f"report it with the log, or {again}"
    return f"was killed ({name})", f"somebody sent the signal; memory is not the likely reason ({used})", again
