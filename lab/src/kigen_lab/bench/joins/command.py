"""Runs a query of `kigen bench joins` with the real command in its own process: wall time, peak memory, and DuckDB's
verdict.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kigen_lab.bench.joins.app import JoinQuery
from kigen_lab.bench.joins.judge import Judge, lines_of_csv, sample_instants
from kigen_lab.bench.process_memory import MemoryWatch

_MB = 1 << 20


@dataclass(frozen=True)
class CommandRun:
    """One run of the command. `why` says what went wrong, if anything. `disagreements` is None if
    DuckDB was not asked.
    """

    wall_s: float
    tree_mb: int
    workers_mb: int
    why: str = ""
    disagreements: list[str] | None = field(default=None)

    def to_json(self) -> dict[str, Any]:
        return {
            "wall_s": round(self.wall_s, 3),
            "tree_mb": self.tree_mb,
            "workers_mb": self.workers_mb,
            "why": self.why,
        }


def run_command(
    query: JoinQuery, paths: dict[str, str], bids: int, work: Path, judged: bool, timeout_s: float
) -> CommandRun:
    """Measures from the start of the command to its end. The result is judged afterwards and deleted."""
    folder = work / f"{query.query}-{bids}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "app.cql").write_text(query.app_text(paths), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "kigen.cli.main",
        "run",
        "app.cql",
        "--drain",
        "--output",
        "lines",
        "--report",
        "report.json",
    ]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    with open(folder / "log.txt", "wb") as log:
        begin = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment, start_new_session=True)
        with MemoryWatch(process.pid) as watch:
            why = _ended(process, timeout_s)
        wall_s = time.perf_counter() - begin
    why = why and f"{why}: {_last_line(folder / 'log.txt')}"
    wrong = _judged(query, paths, bids, folder) if judged and not why else None
    if not why and not wrong:
        shutil.rmtree(folder)
    return CommandRun(wall_s, watch.peak.tree // _MB, watch.peak.workers // _MB, why, wrong)


def _ended(process: subprocess.Popen[bytes], timeout_s: float) -> str:
    """Waits for the command. Returns an empty string if it ended well."""
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"not at its end after {timeout_s:g} s"
    except BaseException:  # Ctrl-C does not reach the command, which has its own session
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return "" if code == 0 else f"exit code {code}"


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"


def _judged(query: JoinQuery, paths: dict[str, str], bids: int, folder: Path) -> list[str]:
    side = f"'{paths['side']}/*.parquet'" if "side" in query.streams else None
    judge = Judge(f"'{paths['bids']}/*.parquet'", side, folder / "spill")
    try:
        return judge.disagreements(
            query, lines_of_csv(folder / "lines" / f"{query.query}.csv", query), sample_instants(bids)
        )
    finally:
        judge.close()
