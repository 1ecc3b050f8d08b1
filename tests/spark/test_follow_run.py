"""Files that grow and recorded files, on Spark: a run that is killed while its file is rotated ends with every line
once, and a recorded file comes at its own speed."""

from __future__ import annotations

import contextlib
import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kills import jvm_of

from kigen.engine import Engine

APP = """
CREATE STREAM readings (room STRING, n BIGINT, ts TIMESTAMP) TIMESTAMP BY ts
  FROM csv (path = 'log.csv', follow = true);
CREATE QUERY even AS ISTREAM(SELECT room, n FROM readings [NOW] WHERE n % 2 = 0);
CREATE QUERY all_of_them AS ISTREAM(SELECT n FROM readings [ROWS 1]);
"""
PATIENCE_S = 120.0


class Producer:
    """Appends numbered rows and rotates the file."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0

    def append(self, rows: int) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            if not file.tell():
                file.write("room,n,ts\n")
            for number in range(self.count, self.count + rows):
                file.write(f"r{number % 3},{number},2026-01-01T00:00:{number // 100:02d}.{number % 100:02d}0000Z\n")
        self.count += rows

    def rotate(self) -> None:
        os.replace(self.path, f"{self.path}.{self.count}")


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kigen.cli.main", "run", str(folder / "app.cql")]
    command += ["--output", str(folder / "out"), "--checkpoint", str(folder / "checkpoint")]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def numbers(folder: Path, query: str) -> list[int]:
    path = folder / "out" / f"{query}.csv"
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return [int(row["n"]) for row in csv.DictReader(file) if row.get("n")]


def wait_for(run: subprocess.Popen[str], folder: Path, rows: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while True:
        seen, even = len(numbers(folder, "all_of_them")), len(numbers(folder, "even"))
        if seen >= rows and even >= (rows + 1) // 2:  # the queries may be in different lanes
            return
        assert run.poll() is None, run.communicate()[1]
        assert time.monotonic() < until, f"{seen} of {rows} rows, {even} of them even"
        time.sleep(0.1)


@pytest.mark.timeout(600)
def test_a_killed_run_finds_its_rotated_files_again(tmp_path: Path) -> None:
    (tmp_path / "app.cql").write_text(APP, encoding="utf-8")
    producer = Producer(tmp_path / "log.csv")
    run = start(tmp_path)
    try:
        producer.append(100)  # the file does not exist when the run starts
        wait_for(run, tmp_path, 99)  # the last row waits for a later one
        producer.rotate()
        producer.append(100)
        wait_for(run, tmp_path, 199)
    finally:
        jvm = jvm_of(tmp_path / "checkpoint")
        for pid in (run.pid, jvm):
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        run.communicate()
    producer.append(50)
    producer.rotate()
    producer.append(50)
    run = start(tmp_path)
    try:
        wait_for(run, tmp_path, 299)
    finally:
        run.send_signal(signal.SIGTERM)
        _, errors = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, errors
    assert sorted(numbers(tmp_path, "all_of_them")) == list(range(299))
    assert sorted(numbers(tmp_path, "even")) == list(range(0, 299, 2))


def test_a_recorded_file_comes_at_its_own_speed(engine: Engine, tmp_path: Path) -> None:
    Producer(tmp_path / "log.csv").append(300)  # three seconds
    (tmp_path / "app.cql").write_text(APP.replace("follow = true", "pace = 1"), encoding="utf-8")
    began = time.monotonic()
    result = engine.run(tmp_path / "app.cql", output=tmp_path / "out")
    assert time.monotonic() - began > 2.5
    assert sorted(numbers(tmp_path, "all_of_them")) == list(range(300))
    assert result.report["queries"]["even"]["in"] == 300
