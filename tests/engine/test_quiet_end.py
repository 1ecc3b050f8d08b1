"""A program that uses the library ends without words of the libraries below."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import kigen

with kigen.Engine() as engine:
    print(engine.run(text=APP, drain=True).report["queries"]["all"]["out"])
"""
APP = """
CREATE STREAM readings (room STRING, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'readings.csv');
CREATE QUERY "all" AS SELECT room FROM readings [RANGE 1 SECOND] WHERE room <> 'x';
"""


def test_a_program_ends_quietly(tmp_path: Path) -> None:
    (tmp_path / "readings.csv").write_text("room,ts\nlab,2026-06-01T12:00:00Z\n", encoding="utf-8")
    (tmp_path / "program.py").write_text(f"APP = {APP!r}\n{PROGRAM}", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1\n"
    assert "leaked" not in done.stderr
