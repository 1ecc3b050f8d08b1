"""Cuts the power while a queue is written: every acknowledged row is present, in order, once, followed at most by rows
that were written later."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from durable.power import PowerCut, PowerDisk

from kigen.durable import standing_in
from kigen.queue import CorruptLog, Queue, QueueError, QueueSettings

SCHEMA = pa.schema([("v", pa.int64())])


def block(first: int, end: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(first, end), pa.int64())], schema=SCHEMA)


def settings(folder: Path, fsync: str) -> QueueSettings:
    return QueueSettings(folder=folder, durable=True, fsync=fsync, segment_bytes=1500, memory_bytes=600)


class Told:
    """What this process, or one before it, acknowledged or reported to others."""

    def __init__(self) -> None:
        self.appended = self.acked = 0


def work(queue: Queue, rng: random.Random, told: Told) -> None:
    """Works until the power is cut."""
    queue.open_reader("r")
    queue.require(["r"])
    at = queue.status()["producers"]["main"]["next"] if "main" in queue.status()["producers"] else 0
    while True:
        size = rng.randrange(1, 30)
        middle = at + rng.randrange(size + 1)
        queue.append([block(at, middle), block(middle, at + size)], at, progress_us=at)
        at = told.appended = at + size
        if rng.random() < 0.5:
            wanted = rng.randint(told.acked, at)
            told.acked = wanted  # it may hold from when it is asked for
            queue.ack("r", wanted)


def rows(queue: Queue) -> list[int]:
    return [v for b in queue.read(queue.status()["start"], 1 << 30, 1 << 40).batches() for v in b.column(0).to_pylist()]


@pytest.mark.parametrize("seed", range(30))
def test_what_was_acknowledged_outlives_power_cuts(seed: int, tmp_path: Path) -> None:
    rng, told, root = random.Random(seed), Told(), tmp_path / "disk"
    root.mkdir()
    for _ in range(5):
        disk = PowerDisk(root, rng, cut_after=rng.randrange(120))
        with standing_in(disk), pytest.raises(PowerCut):
            work(Queue("s", SCHEMA, settings(root / "queues", "always")), rng, told)
        disk.restart()
        with Queue("s", SCHEMA, settings(root / "queues", "always")) as queue:
            status = queue.status()
            assert status["start"] <= told.acked
            assert status["end"] >= told.appended
            assert rows(queue) == list(range(status["start"], status["end"]))
            told.appended = status["end"]


@pytest.mark.parametrize("seed", range(20))
def test_without_syncs_a_power_cut_costs_the_end_or_is_told(seed: int, tmp_path: Path) -> None:
    rng, told, root = random.Random(seed), Told(), tmp_path / "disk"
    root.mkdir()
    disk = PowerDisk(root, rng, cut_after=rng.randrange(40, 400))
    with standing_in(disk), pytest.raises(PowerCut):
        work(Queue("s", SCHEMA, settings(root / "queues", "never")), rng, told)
    disk.restart()
    with suppress(QueueError), Queue("s", SCHEMA, settings(root / "queues", "never")) as queue:
        status = queue.status()
        assert rows(queue) == list(range(status["start"], status["end"]))


def test_damage_behind_a_sync_is_no_power_cut(tmp_path: Path) -> None:
    how = QueueSettings(folder=tmp_path, durable=True, fsync="always")
    with Queue("s", SCHEMA, how) as queue:
        for i in range(5):
            queue.append(block(i, i + 1), i)
    (path,) = (tmp_path / "s").glob("*.log")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    with pytest.raises(CorruptLog, match="no kill or power cut causes"):
        Queue("s", SCHEMA, how)
