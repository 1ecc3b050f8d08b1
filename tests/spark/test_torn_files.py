"""Torn files in a checkpoint: the command ends with exit code 1, names the file and says what to do."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

FROZEN = Path(__file__).parent / "frozen" / "format-1.tar.gz"


@pytest.mark.parametrize("file", ["app.json", "sink/23.json"])
@pytest.mark.parametrize("left", [0, 100])
def test_a_torn_file_ends_the_run_with_its_name(file: str, left: int, tmp_path: Path) -> None:
    with tarfile.open(FROZEN) as tar:
        tar.extractall(tmp_path, filter="data")
    path = tmp_path / "checkpoint" / file
    path.write_bytes(path.read_bytes()[:left])
    command = [
        sys.executable,
        "-m",
        "kigen.cli.main",
        "run",
        str(tmp_path / "rooms.cql"),
        "--drain",
        "--checkpoint",
        str(path.parents[file.count("/")]),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    assert f"{path}: it is torn ({left} bytes" in done.stderr
    assert "Restore it from a copy of the checkpoint" in done.stderr
    assert "Traceback" not in done.stderr
