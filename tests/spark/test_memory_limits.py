"""Runs that reach their memory limit, workers that are killed, and long first batches, with real processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bids import write_bids

from kigen.engine import Engine, Run
from kigen.engine.errors import SparkDied
from kigen.spark.watch.memory import MemoryLimitReached
from kigen.spark.watch.worker_files import IDLE, WorkerFiles, WorkerReport

_PATIENCE_S = 200


@pytest.fixture(scope="module")
def bids(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bids(tmp_path_factory.mktemp("bids"), 4_000_000)


@contextlib.contextmanager
def command(app: Path, directory: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Starts `kigen run` with its own directory for temporary files."""
    (directory / "tmp").mkdir()
    arguments = [
        sys.executable,
        "-m",
        "kigen.cli.main",
        "run",
        str(app),
        "--drain",
        "--output",
        str(directory / "out"),
        *options,
    ]
    environment = {**os.environ, "TMPDIR": str(directory / "tmp")}
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def at_work(scratch: Path, batch: int = 1) -> WorkerReport:
    """Waits until a worker of the run processes that batch, and returns its report."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        for report in WorkerFiles(str(scratch)).reports():
            if report.seq >= batch and report.phase != IDLE:
                return report
        time.sleep(0.02)
    raise TimeoutError("no worker has begun")


def scratch_of(directory: Path) -> Path:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        found = [path.parent for path in (directory / "tmp").glob("kigen-*/workers")]
        if found:
            return found[0]
        time.sleep(0.05)
    raise TimeoutError("no run has begun")


# --- the limit -------------------------------------------------------------------------------------------------------


def test_a_run_ends_at_its_limit_and_says_who_holds_what(bids: Path, tmp_path: Path) -> None:
    with command(bids, tmp_path, "--memory", "300MB") as process:
        _, err = process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 1, err
    *_, last = err.splitlines()
    assert re.match(r"error: query matched ran out of memory: the workers of the run use \d+ MB", last), err
    assert "--memory allows 300 MB" in last
    assert re.search(r"join on auction = id holds [\d,]+ tuples in \d+ MB, most of it bid \[UNBOUNDED\]", last)
    assert "Use a smaller window" in last
    assert re.search(r"^memory: \d+ MB of 300 MB in use \(\d+%\)", err, re.MULTILINE), (
        "from 80 % on it is said who holds what"
    )
    assert "Traceback" not in err
    assert "spark" not in last.lower()


def test_the_limit_is_an_option_of_the_library_too(engine: Engine, bids: Path) -> None:
    with pytest.raises(MemoryLimitReached, match=r"query matched ran out of memory.*--memory allows 250 MB"):
        engine.run(bids, drain=True, memory="250MB", keep_results=False)


def test_a_size_that_cannot_be_is_refused_before_anything_starts(bids: Path, tmp_path: Path) -> None:
    with command(bids, tmp_path, "--memory", "lots") as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.endswith("error: memory 'lots' is not a size: write a size such as 4GB, 512MB or 70%\n")


# --- workers that die ------------------------------------------------------------------------------------------------


def kill_each(scratch: Path, number: int, ended: Callable[[], bool]) -> None:
    """Kills each worker that is at work in the second batch or later: Spark tries a task four times."""
    while not ended():
        for report in WorkerFiles(str(scratch)).reports():
            if report.seq >= 2 and report.phase != IDLE and report.alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(report.pid, number)
        time.sleep(0.02)


def killed(engine: Engine, app: Path, number: int) -> str:
    run: Run = engine.start(app, drain=True, keep_results=False)
    until = time.monotonic() + _PATIENCE_S
    kill_each(run._scratch, number, lambda: run.await_end(0.0) or time.monotonic() > until)
    with pytest.raises(SparkDied) as told:
        run.stop()
    return str(told.value)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGKILL, r"was killed \(SIGKILL\) while it was at work \(.+\): another process sent the signal"),
        (signal.SIGSEGV, r"crashed \(SIGSEGV\) while it was at work \(.+\): a native library has a bug"),
        (signal.SIGTERM, r"was killed \(SIGTERM\) while it was at work"),
    ],
)
def test_a_worker_that_dies_is_named_with_its_query_and_the_log(
    engine: Engine, bids: Path, number: int, words: str
) -> None:
    told = killed(engine, bids, number)
    assert re.match(rf"a Python worker of query matched {words}", told), told
    assert re.search(r"it used \d+ MB of [\d.]+ GB", told)
    log = Path(re.search(r"Spark's log: (\S+)$", told)[1])  # type: ignore[index]
    assert log.exists()
    assert "\n" not in told


def test_a_worker_that_dies_once_is_replaced(engine: Engine, bids: Path) -> None:
    run: Run = engine.start(bids, drain=True, keep_results=False)
    os.kill(at_work(run._scratch, batch=2).pid, signal.SIGKILL)
    run.await_end(_PATIENCE_S)
    assert run.stop().finished


def test_nothing_of_spark_reaches_the_terminal_when_a_worker_is_killed(bids: Path, tmp_path: Path) -> None:
    with command(bids, tmp_path) as process:
        kill_each(scratch_of(tmp_path), signal.SIGKILL, lambda: process.poll() is not None)
        _, err = process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 1
    assert re.search(r"^error: a Python worker of query matched was killed \(SIGKILL\)", err, re.MULTILINE), err
    assert not re.search(r"Traceback|\bat org\.|\d+ more|Exception|SQLSTATE", err), err


def test_sparks_own_process_that_is_killed_is_named_too(bids: Path, tmp_path: Path) -> None:
    with command(bids, tmp_path) as process:
        scratch = scratch_of(tmp_path)
        at_work(scratch)
        owner = json.loads((scratch / "checkpoint" / "owner.json").read_bytes())
        os.kill(owner["jvm"]["pid"], signal.SIGKILL)
        _, err = process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 1
    assert re.search(r"^error: Spark's Java process ended, or was killed", err, re.MULTILINE), err
    assert "Traceback" not in err


# --- progress --------------------------------------------------------------------------------------------------------


def test_a_first_batch_says_what_it_does_and_how_far_it_is(engine: Engine, bids: Path) -> None:
    run = engine.start(bids, drain=True, keep_results=False, batch_rows=2_000_000)
    seen = []
    while run.active and not run.progress.batches:
        seen.append(run.progress)
        time.sleep(0.01)
    run.stop()
    within = [progress for progress in seen if progress.batches == 0 and progress.read]
    assert within, "tuples of the first batch count before it is committed"
    assert any(progress.doing == "query matched: join on auction = id" for progress in seen)
    assert all(progress.doing is not None for progress in seen)
    fractions = [progress.fraction for progress in within if progress.fraction is not None]
    assert 0 < fractions[0] < 0.6
    assert fractions == sorted(fractions)
    reached = [progress.reached_us for progress in within if progress.reached_us is not None]
    assert reached
    assert reached == sorted(reached)
    assert max(progress.memory for progress in within) > 100_000_000


# --- the report ------------------------------------------------------------------------------------------------------


def test_the_report_says_what_each_querys_windows_hold(engine: Engine, tmp_path: Path) -> None:
    report = engine.run(write_bids(tmp_path, 20_000), drain=True, keep_results=False).report
    state = report["queries"]["matched"]["state"]
    assert list(state) == ["tuples", "bytes", "peak_bytes", "windows"]
    (window,) = [w for w in state["windows"] if w["unbounded"]]
    assert (window["window"], window["operator"]) == ("bid [UNBOUNDED]", "join on auction = id")
    assert window["tuples"] == 20_000
    assert 20_000 * 60 < window["bytes"] <= state["bytes"] <= state["peak_bytes"]
    assert state["tuples"] >= 20_000
    json.dumps(report)
