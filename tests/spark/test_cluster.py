"""Runs on a real standalone cluster: a master and two workers as processes on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from rooms import bags, write_rooms

from kigen.engine import Engine

_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # five JVMs live so shortly that compiling well costs more
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@contextmanager
def daemon(log: Path, *arguments: str) -> Iterator[Path]:
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "JAVA_TOOL_OPTIONS": _JAVA_OPTIONS,
    }
    with log.open("wb") as out:
        process = subprocess.Popen([str(SPARK_CLASS), *arguments], stdout=out, stderr=out, env=environment)
        try:
            yield log
        finally:
            process.terminate()
            process.wait(30)


def said(log: Path, pattern: str) -> str:
    """Waits until the pattern matches in the log, and returns the match."""
    for _ in range(1200):
        found = re.search(pattern, log.read_text(encoding="utf-8", errors="replace"))
        if found:
            return found.group(0)
        time.sleep(0.1)
    raise AssertionError(f"{pattern} did not appear: {log.read_text(encoding='utf-8', errors='replace')[-2000:]}")


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    with ExitStack() as stack:
        host = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        log = stack.enter_context(daemon(tmp_path / "master.log", "org.apache.spark.deploy.master.Master", *host))
        url = said(log, r"spark://127\.0\.0\.1:[1-9][0-9]*")
        workers = []
        for i in (1, 2):
            sizes = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"work{i}"))
            started = daemon(tmp_path / f"worker{i}.log", "org.apache.spark.deploy.worker.Worker", *host, *sizes, url)
            workers.append(stack.enter_context(started))
        for worker in workers:
            said(worker, "Successfully registered with master")
        yield url


@pytest.mark.timeout(900)
def test_a_cluster_gives_the_same_lines_as_this_process(engine: Engine, master: str, tmp_path: Path) -> None:
    app = write_rooms(tmp_path, 300)
    engine.run(app, drain=True, output=str(tmp_path / "here"), keep_results=False)
    command = [
        sys.executable,
        "-m",
        "kigen.cli.main",
        "run",
        str(app),
        "--drain",
        "--output",
        str(tmp_path / "there"),
        "--master",
        master,
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "KIGEN_BATCH_ROWS": "100", "JAVA_TOOL_OPTIONS": _JAVA_OPTIONS},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert bags(tmp_path / "there") == bags(tmp_path / "here")
    assert len(list(tmp_path.glob("work*/app-*/*"))) >= 2, "both workers should have had an executor"
