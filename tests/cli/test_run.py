"""Runs `kigen run` as users do, in its own process, and watches it from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

LIVE = """CREATE STREAM cars (id BIGINT, speed DOUBLE)
  FROM synthetic (rate = 200, arrivals = 'poisson', seed = 7, id = 'sequence', speed = 'normal(80, 10)');
CREATE QUERY fast DEADLINE 30 SECONDS AS SELECT COUNT(*) AS n FROM cars [RANGE 1 SECONDS] WHERE speed > 90;
"""
BAD = """CREATE STREAM s (a BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');
CREATE QUERY q AS SELECT a FROM s [ROWS 3];
"""
pytestmark = pytest.mark.timeout(600)


def kigen(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kigen.cli.main", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )


def test_a_live_run_for_a_while(tmp_path: Path) -> None:
    (tmp_path / "app.cql").write_text(LIVE, encoding="utf-8")
    process = kigen(
        "run",
        str(tmp_path / "app.cql"),
        "--duration",
        "6 s",
        "--output",
        str(tmp_path / "out"),
        "--report",
        str(tmp_path / "r.json"),
    )
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    report = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert list(report) == ["policy", "lifetime", "wall_s", "batches", "batch_ms", "queries", "costs", "streams"]
    fast = report["queries"]["fast"]
    counts = [
        "in",
        "out",
        "missed",
        "shed",
        "late",
        "skipped",
        "dropped",
        "sdmr",
        "deadline_ms",
        "latency_ms",
        "missed_ms",
    ]
    assert list(fast) == [*counts, "state"]
    assert report["batches"] >= 1
    assert 200 < fast["in"] < 200 * 60
    assert fast["late"] == 0
    assert 0 < fast["latency_ms"]["p50"] <= fast["latency_ms"]["p99"]
    lines = (tmp_path / "out" / "fast.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == fast["out"] + 1
    assert lines[-1].endswith(","), "no checkpoint: the streams end with the run, and what lives then is written"
    assert "fast" in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "app.cql").write_text(LIVE, encoding="utf-8")
    process = kigen(
        "run", str(tmp_path / "app.cql"), "--checkpoint", str(tmp_path / "ck"), "--report", str(tmp_path / "r.json")
    )
    while not list((tmp_path / "ck").glob("sink/[0-9]*.json")) and process.poll() is None:
        time.sleep(0.05)
    busy = kigen("run", str(tmp_path / "app.cql"), "--checkpoint", str(tmp_path / "ck"))
    _, message = busy.communicate(timeout=120)
    assert busy.returncode == 1
    assert f"in use by process {process.pid}" in message
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert "the same command continues from" in err
    assert "fast" in out
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["batches"] >= 1
    assert not (tmp_path / "ck" / "owner.json").exists()


def test_a_bad_row_is_exit_1_with_its_place_and_no_stack_trace(tmp_path: Path) -> None:
    (tmp_path / "app.cql").write_text(BAD, encoding="utf-8")
    (tmp_path / "s.csv").write_text("a,ts\n1,2026-01-01T00:00:00Z\ntwo,2026-01-01T00:00:01Z\n", encoding="utf-8")
    process = kigen("run", str(tmp_path / "app.cql"), "--drain")
    _, err = process.communicate(timeout=500)
    assert process.returncode == 1
    assert f"{tmp_path / 's.csv'}:3: field 'a'" in err
    assert "Traceback" not in err
    assert "nanobind" not in err


def test_spark_is_warmed_once_and_not_for_a_spark_of_the_users_own() -> None:
    process = kigen("warm")
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    assert Path(out.removeprefix("already there: ").partition(".jsa")[0] + ".jsa").stat().st_size > 1 << 20
    process = kigen("warm", "--again", SPARK_HOME="/opt/spark")
    _, err = process.communicate(timeout=500)
    assert process.returncode == 1
    assert err.startswith("error: SPARK_HOME or PYSPARK_PYTHON is set")
