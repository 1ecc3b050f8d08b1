"""Fills the disk at a random write: the run ends with a clear error, nothing is torn, and it continues once there is
space."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from durable.test_sink_power_cuts import Run, check

from kigen.durable import Disk, replace, standing_in
from kigen.queue import StorageFailed


class FullDisk(Disk):
    """A disk that accepts a number of bytes, and only a part of the write that does not fit."""

    def __init__(self, room: int) -> None:
        self._room = room

    def write_at(self, fd: int, parts: Sequence[Any], at: int) -> int:
        size = sum(len(part) for part in parts)
        if self._room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        if size > self._room:
            left, self._room = self._room, 0
            return super().write_at(fd, [b"".join(bytes(part) for part in parts)[:left]], at)
        self._room -= size
        return super().write_at(fd, parts, at)


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_a_run_goes_on_after_space_was_made(seed: int, linked: bool, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for _ in range(3):
        run = None
        try:
            with standing_in(FullDisk(rng.randrange(40_000))):
                run = Run(tmp_path, True, linked)
                run.to_end(tmp_path, rng)
            break
        except (OSError, StorageFailed) as error:
            if "No space left" not in str(error):
                raise
            if run is not None and run.queue is not None:
                run.queue.close()
            elif linked and run is None:  # the run failed before its queue was closed, as after a kill
                _release(tmp_path)
    Run(tmp_path, True, linked).to_end(tmp_path, rng)
    check(tmp_path, linked)


def _release(root: Path) -> None:
    """Replaces the lock file, because the locks of a process end with it."""
    for lock in (root / "queues").glob("*/lock"):
        lock.unlink()


def test_a_file_that_does_not_fit_leaves_the_old_one_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "app.json"
    replace(path, b"old", sync=True)
    with standing_in(FullDisk(100)), pytest.raises(OSError, match="No space left"):
        replace(path, b"x" * 1000, sync=True)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["app.json"]
