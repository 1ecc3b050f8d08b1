"""A run whose disk becomes full ends with a clear error, and continues to the right lines when there is space again."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rooms import bags, write_rooms

from kigen.engine import Engine, RunFailed


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a disk of a given size cannot be made here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(file: Path) -> None:
    with open(file, "ab", buffering=0) as sink:
        try:
            while True:
                sink.write(bytes(4096))
        except OSError:
            pass


def test_a_full_disk_ends_the_run_and_space_lets_it_go_on(engine: Engine, tmp_path: Path, small_disk: Path) -> None:
    app = write_rooms(tmp_path, 600)
    engine.run(app, drain=True, output=str(tmp_path / "undisturbed"), keep_results=False)
    options = {
        "drain": True,
        "output": str(small_disk / "out"),
        "checkpoint": str(small_disk / "ck"),
        "keep_results": False,
    }
    run = engine.start(app, **options, batch_rows=20)  # small batches: the disk becomes full in the middle
    while len(run.commits) < 5:
        assert run.active
        time.sleep(0.01)
    fill(small_disk / "filler")
    assert run.await_end(120)
    with pytest.raises((OSError, RunFailed), match="No space left"):
        run.stop()
    (small_disk / "filler").unlink()
    assert engine.run(app, **options).finished
    assert bags(small_disk / "out") == bags(tmp_path / "undisturbed")
