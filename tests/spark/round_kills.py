"""Kills the processes of live runs at random moments, inside an epoch or between two, and compares the lines.

The stream is generated and ends, so a drain that begins at the same instant gives the undisturbed lines.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kigen.engine import Engine

APP = """
CREATE STREAM cars (id BIGINT, room STRING, speed DOUBLE) FROM synthetic (rate = {rate}, arrivals = 'poisson', seed = 7,
  duration = '{seconds} s', id = 'sequence', room = 'choice(a, b, c)', speed = 'uniform(0, 100)'{start});
CREATE STREAM bikes (id BIGINT, room STRING) FROM synthetic (rate = 40, seed = 9, duration = '{seconds} s',
  id = 'sequence', room = 'choice(a, b, c)'{start});
CREATE QUERY means DEADLINE 1 SECONDS AS SELECT room, AVG(speed) AS mean, COUNT(*) AS n
  FROM cars [RANGE 700 MILLISECONDS]
  GROUP BY room HAVING AVG(speed) > 30;
CREATE QUERY last AS ISTREAM(SELECT id, speed FROM cars [ROWS 10] WHERE speed > 90);
CREATE QUERY meet AS SELECT c.id AS car, b.id AS bike FROM cars [RANGE 200 MILLISECONDS] AS c, bikes [ROWS 5] AS b
  WHERE c.room = b.room AND c.speed > 80;
"""
KINDS = ("worker", "reader", "jvm", "command")
_PATIENCE_S = 240


def start(app: Path, output: Path, checkpoint: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kigen.cli.main", "run", str(app), "--output", str(output)]
    return subprocess.Popen(
        [*command, "--checkpoint", str(checkpoint), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def processes(command: int) -> dict[str, list[int]]:
    """Returns the processes of a run by kind."""
    parents: dict[int, int] = {}
    lines: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            pid = int(folder.name)
            parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            lines[pid] = (folder / "cmdline").read_text().replace("\0", " ")
        except (OSError, ValueError):
            continue
    family, before = {command}, 0
    while len(family) > before:
        before = len(family)
        family |= {pid for pid, parent in parents.items() if parent in family}
    daemons = {pid for pid in family if "kigen.spark.session.daemon" in lines[pid]}
    return {
        "worker": sorted(pid for pid in daemons if parents[pid] in daemons),
        "reader": sorted(pid for pid in family if "python_streaming_source_runner" in lines[pid]),
        "jvm": sorted(pid for pid in family if "/java" in lines[pid].split(" ")[0]),
        "command": [command],
    }


def rounds_of(checkpoint: Path) -> int:
    """Returns how many bytes of rounds are logged: more means that the run works."""
    return sum(path.stat().st_size for path in (checkpoint / "rounds").glob("*.log") if path.exists())


def kill_later(process: subprocess.Popen[str], checkpoint: Path, rng: random.Random, kind: str) -> bool:
    """Waits until rounds run, then for a random moment, and sends SIGKILL. Returns False if the run ended before."""
    before, until = rounds_of(checkpoint), time.monotonic() + _PATIENCE_S
    while rounds_of(checkpoint) == before and time.monotonic() < until and process.poll() is None:
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 2.5))
    if process.poll() is not None:
        return False
    while not (found := processes(process.pid)[kind]):  # Spark is starting it
        if process.poll() is not None or time.monotonic() > until:
            return False
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.kill(rng.choice(found), signal.SIGKILL)
        return True
    return False


def lines_of(folder: Path) -> dict[str, list[str]]:
    found = {}
    for name in ("means", "last", "meet"):
        with (folder / f"{name}.csv").open(encoding="utf-8") as file:
            found[name] = sorted(",".join(row) for row in csv.reader(file))
    return found


def undisturbed(engine: Engine, directory: Path, checkpoint: Path, rate: int, seconds: int) -> dict[str, list[str]]:
    """Returns the lines of a drain that begins when the run on the checkpoint began."""
    started_us = json.loads((checkpoint / "rounds" / "first.json").read_bytes())["started_us"]
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=started_us)
    app = directory / "drained.cql"
    app.write_text(APP.format(rate=rate, seconds=seconds, start=f", start = '{at.isoformat()}'"), encoding="utf-8")
    engine.run(app, drain=True, output=str(directory / "drained"), keep_results=False)
    return lines_of(directory / "drained")


def check_kills(engine: Engine, directory: Path, count: int, seconds: int = 25, rate: int = 200) -> None:
    """Kills `count` times, each kind of process in turn, over as many complete runs as that takes."""
    seed = int(os.environ.get("KIGEN_SEED", time.time_ns() % 1_000_000))
    rng = random.Random(seed)
    kills = runs = 0
    while kills < count:
        folder = directory / f"run{runs}"
        folder.mkdir()
        app, output, checkpoint = folder / "app.cql", folder / "out", folder / "ck"
        app.write_text(APP.format(rate=rate, seconds=seconds, start=""), encoding="utf-8")
        told: list[str | None] = []
        while True:
            process = start(app, output, checkpoint, "--epoch", rng.choice(("1 s", "3 s", "30 s")))
            kind = KINDS[kills % len(KINDS)]
            while kills < count and kill_later(process, checkpoint, rng, kind):
                kills += 1
                told.append(kind)
                if kind != "worker":  # Spark starts another worker; without the others the run ends
                    break
                kind = KINDS[kills % len(KINDS)]
            _, errors = process.communicate(timeout=_PATIENCE_S)
            if process.returncode == 0:
                break
            assert told[-1:] != [None], f"seed {seed}, killed {told}: {errors}"
            assert told, f"seed {seed}: {errors}"
            told.append(None)  # the next run ends well, or is killed again
        assert lines_of(output) == undisturbed(engine, folder, checkpoint, rate, seconds), f"seed {seed}, killed {told}"
        runs += 1
