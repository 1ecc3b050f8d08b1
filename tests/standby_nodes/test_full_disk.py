"""The leader's disk is full for a while: the follower takes over, and the leader stands by once there is room. The lines
are those of the undisturbed run."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from standby_nodes.pairs import ALL, Pair, lines, role, steady

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="several Sparks for minutes: make soak"),
]
SECONDS = 130


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a disk of a given size cannot be made here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(file: Path) -> None:
    with open(file, "wb", buffering=0) as sink:
        try:
            while True:
                sink.write(bytes(1 << 16))
        except OSError:
            pass


def test_the_disk_of_the_leader_is_full_for_a_while(tmp_path: Path) -> None:
    pair = Pair(tmp_path, ALL, 'standby = "lazy"\nbatch = 25', SECONDS)
    with small_disk(pair.state / "mid"), pair.up() as up:
        told = up.until(lambda told: steady(told) and lines(told) > 100, "results, and a standby")
        leader = role(told, "leads")
        filler = pair.state / "mid" / "filler"
        fill(filler)
        if leader == "mid":
            until = time.monotonic() + 300
            while "mid.1 works on" not in up.said and time.monotonic() < until:
                time.sleep(0.2)
        else:
            time.sleep(15)
        time.sleep(5)
        filler.unlink()
        told = up.until(lambda now: steady(now) and lines(now) > lines(told), "both at work, and results")
        assert pair.left_s > 0, "the tuples came to their end before all was tried"
        assert up.end() == 0, up.said
    if leader == "mid":
        assert "No space left" in up.said or "mid.1 works on" in up.said, up.said
    pair.check()
