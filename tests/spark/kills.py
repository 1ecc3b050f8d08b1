"""Kills runs at random moments, starts them again, and compares their results with those of an undisturbed run.

Half of the kills also hit Spark's JVM.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from rooms import bags, write_rooms

from kigen.engine import Engine

SMALL = {"KIGEN_BATCH_ROWS": "40", "KIGEN_INLINE_BYTES": "1000"}  # so small that snapshots and many results are files
_PATIENCE_S = 240


def start(app: Path, output: Path, checkpoint: Path) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "kigen.cli.main",
        "run",
        str(app),
        "--drain",
        "--output",
        str(output),
        "--checkpoint",
        str(checkpoint),
    ]
    return subprocess.Popen(
        command,
        env={**os.environ, **SMALL},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def recorded(checkpoint: Path) -> int:
    """Returns the last batch in the sink log."""
    return max((int(path.stem) for path in (checkpoint / "sink").glob("[0-9]*.json")), default=-1)


def jvm_of(checkpoint: Path) -> int | None:
    try:
        owner = json.loads((checkpoint / "owner.json").read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return owner["jvm"]["pid"] if owner.get("jvm") else None


def kill_later(process: subprocess.Popen[str], checkpoint: Path, rng: random.Random) -> bool:
    """Waits for a random moment (of the start, or of one of the next batches) and sends SIGKILL.

    Returns False if the run ended before.
    """
    goal = recorded(checkpoint) + rng.choice((1, 1, 2, 2, 3))
    until = time.monotonic() + (rng.uniform(1, 15) if rng.random() < 0.15 else _PATIENCE_S)
    while recorded(checkpoint) < goal and time.monotonic() < until and process.poll() is None:
        time.sleep(0.005)
    time.sleep(rng.choice((0.0, rng.uniform(0, 0.05), rng.uniform(0, 0.4))))
    if process.poll() is not None:
        return False
    jvm = jvm_of(checkpoint) if rng.random() < 0.5 else None
    process.kill()
    if jvm is not None:
        with contextlib.suppress(ProcessLookupError):  # it ends by itself soon after the command
            os.kill(jvm, signal.SIGKILL)
    process.communicate()
    return True


def check_kills(engine: Engine, directory: Path, count: int) -> None:
    """Kills `count` times, over as many complete runs as that takes. Each must end with the undisturbed lines."""
    app = write_rooms(directory, 600)
    engine.run(app, drain=True, output=str(directory / "undisturbed"), keep_results=False)
    expected = bags(directory / "undisturbed")
    seed = int(os.environ.get("KIGEN_SEED", time.time_ns() % 1_000_000))
    rng = random.Random(seed)
    kills = rounds = 0
    while kills < count:
        output, checkpoint = directory / f"out{rounds}", directory / f"ck{rounds}"
        while kills < count:
            process = start(app, output, checkpoint)
            if not kill_later(process, checkpoint, rng):
                break
            kills += 1
        else:
            process = start(app, output, checkpoint)
        _, errors = process.communicate(timeout=_PATIENCE_S)
        assert process.returncode == 0, f"seed {seed}, round {rounds}: {errors}"
        assert bags(output) == expected, f"seed {seed}, round {rounds}, after {kills} kills"
        rounds += 1
