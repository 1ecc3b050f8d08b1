"""Measures what running apps cost that have nothing to do: CPU time per process, in percent of one core.

Each app runs as `kigen run` in a process of its own. Counting starts when its lanes have begun and some seconds have
passed, in which the JVM compiles what it has just used.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kigen_lab.bench.connectors.kigen_command import KigenCommand
from kigen_lab.bench.idle.process_times import ROLES, all_processes, used_percent
from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.worker import ContestantFailed
from kigen_lab.bench.workspace import workspace

TARGET_PERCENT = 3.0
_START_S = 300.0
_QUERY = "CREATE QUERY means DEADLINE 1 SECONDS AS SELECT k, AVG(v) AS mean FROM s [RANGE 10 SECONDS] GROUP BY k "
_INTO = "INTO csv (path = 'out');\n"
APPS = {
    "http": "CREATE STREAM s (k STRING, v DOUBLE) FROM http ();\n" + _QUERY + _INTO,
    "synthetic": "CREATE STREAM s (k STRING, v DOUBLE) FROM synthetic (rate = 0.0001, k = 'choice(a, b)', "
    "v = 'uniform(0, 1)');\n" + _QUERY + _INTO,
    "followed": "CREATE STREAM s (k STRING, v DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts "
    "FROM csv (path = 's.csv', follow = true);\n" + _QUERY + _INTO,
}


@dataclass(frozen=True)
class IdleSettings:
    """What `kigen bench idle` measures."""

    apps: tuple[str, ...] = tuple(APPS)
    seconds: float = 60.0
    settle_s: float = 30.0
    out: Path = Path("out/bench")


def run_idle_bench(settings: IdleSettings, say: Callable[[str], None], advance: Callable[[], None]) -> dict[str, Any]:
    """Measures one app after the other."""
    machine, cells = describe_machine(), []
    with workspace(settings.out) as folder:
        for app in settings.apps:
            say(f"{app}: starting")
            cells.append({"app": app, **_measure(app, folder / app, settings, say)})
            advance()
    return {
        "machine": machine,
        "settings": {"seconds": settings.seconds, "settle_s": settings.settle_s},
        "cells": cells,
        "target_percent": TARGET_PERCENT,
    }


def _measure(app: str, folder: Path, settings: IdleSettings, say: Callable[[str], None]) -> dict[str, float]:
    folder.mkdir(parents=True, exist_ok=True)
    if app == "followed":
        (folder / "s.csv").write_text("k,v,ts\na,1.0,2026-01-02T03:04:05Z\n", encoding="utf-8")
    with KigenCommand(APPS[app], folder, serve=app == "http") as command:
        until = time.monotonic() + _START_S
        while not list((folder / "checkpoint" / "rounds").glob("*.log")):
            command.require()
            if time.monotonic() > until:
                raise ContestantFailed(f"the lanes of {app} have not begun after {_START_S:g} s (files: {folder})")
            time.sleep(0.1)
        say(f"{app}: measuring {settings.seconds:g} s")
        time.sleep(settings.settle_s)
        before, began = all_processes(), time.monotonic()
        time.sleep(settings.seconds)
        after, passed_s = all_processes(), time.monotonic() - began
        command.require()
        used = used_percent(before, after, command.pid, passed_s)
    return {**{role: round(used[role], 2) for role in ROLES}, "all": round(sum(used.values()), 2)}
