"""Tests the durability setting of a run, and the warning about a slow disk."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kigen.durable import Disk, slow_disk, standing_in, sync_ms
from kigen.engine import ArgumentError, RunOptions


class SlowDisk(Disk):
    def sync(self, fd: int) -> None:
        time.sleep(0.03)


def test_a_disk_that_syncs_slowly_is_told_with_what_to_do(tmp_path: Path) -> None:
    with standing_in(SlowDisk()):
        told = slow_disk(tmp_path)
    assert told is not None
    assert "ms to sync" in told
    assert "durability = process" in told
    assert os.listdir(tmp_path) == []


def test_a_quick_disk_is_not(tmp_path: Path) -> None:
    class Quick(Disk):
        def sync(self, fd: int) -> None:
            pass

    with standing_in(Quick()):
        assert slow_disk(tmp_path) is None
        assert sync_ms(tmp_path) < 20


def test_a_run_syncs_unless_it_says_process() -> None:
    assert RunOptions().syncs
    assert not RunOptions(durability="process").syncs
    with pytest.raises(ArgumentError, match=r"no durability 'never': write power .* or process"):
        RunOptions(durability="never")
