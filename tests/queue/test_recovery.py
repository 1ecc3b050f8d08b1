"""After a kill: everything acknowledged is there once and in order, a torn tail is cut, and other damage is an
error.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from links.children import SOAK, WIDE, durable, start
from links.reference import SCHEMA, batch, ids

from kigen.queue import CorruptLog, Queue, QueueSettings, StorageFailed


@pytest.mark.parametrize("seed", [1, 2] if SOAK else [1])
def test_killed_while_appending(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for life in range(3):
        child = start("appender", str(tmp_path), str(seed * 100 + life))
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.3))
        child.send_signal(signal.SIGKILL)
        said = int((first + child.stdout.read()).split()[-1])
        child.wait()
        child.stdout.close()
        with Queue("s", WIDE, durable(str(tmp_path), 8 << 20)) as queue:
            status = queue.status()
            assert status["end"] >= said
            assert status["producers"]["main"]["next"] == status["end"]
            assert status["progress_us"] == status["end"]  # the watermark of a unit comes only with the whole unit
            got = [i for b in queue.read(status["start"], 1 << 30, 1 << 40).batches() for i in b.column(0).to_pylist()]
            assert got == list(range(status["start"], status["end"]))
            queue.open_reader("check")
            queue.require(["check"])
            queue.ack("check", rng.randint(status["start"], status["end"]))


def filled(folder: Path, segment_bytes: int = 1 << 20) -> tuple[QueueSettings, list[Path]]:
    how = QueueSettings(folder=folder, durable=True, segment_bytes=segment_bytes)
    with Queue("s", SCHEMA, how) as queue:
        for i in range(0, 50, 5):
            queue.append([batch([i, i + 1]), batch([i + 2, i + 3, i + 4])], i, progress_us=i)
    return how, sorted((folder / "s").glob("*.log"))


def test_every_cut_of_the_tail_leaves_whole_units(tmp_path: Path) -> None:
    how, (path,) = filled(tmp_path)
    whole = path.read_bytes()
    ends = set()
    for size in [*range(len(whole) - 1, len(whole) - 5_000, -61), 0, 1, 63, 64, 65]:
        path.write_bytes(whole[:size])
        with Queue("s", SCHEMA, how) as queue:
            end = queue.status()["end"]
            assert end % 5 == 0
            assert ids(queue.read(0).batches()) == list(range(end))
            queue.append(batch([end]), end)
        with Queue("s", SCHEMA, how) as queue:
            assert ids(queue.read(0).batches()) == list(range(end + 1))
        ends.add(end)
        for other in path.parent.glob("*.log"):
            other.unlink()
    assert len(ends) > 4
    assert 0 in ends


def test_garbage_behind_the_tail_is_cut(tmp_path: Path) -> None:
    how, (path,) = filled(tmp_path)
    for garbage in (b"\0" * 4096, os.urandom(1000), b"KGQ1" * 40):
        with path.open("ab") as file:
            file.write(garbage)
        with Queue("s", SCHEMA, how) as queue:
            assert queue.cut_bytes == len(garbage)
            assert queue.status()["end"] == 50


@pytest.mark.parametrize("place", ["last", "earlier"])
def test_damage_in_the_middle_is_an_error_unless_repair_is_asked_for(place: str, tmp_path: Path) -> None:
    how, paths = filled(tmp_path, 1 << 20 if place == "last" else 1_000)
    path = paths[len(paths) // 2]
    data = bytearray(path.read_bytes())
    middle = data.index(b"KGQ1", len(data) // 2) + 10  # in a head
    data[middle] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(CorruptLog, match="repair=True"):
        Queue("s", SCHEMA, how)
    with Queue("s", SCHEMA, QueueSettings(**{**vars(how), "repair": True})) as queue:
        end = queue.status()["end"]
        assert 0 < end < 50
        assert ids(queue.read(0).batches()) == list(range(end))


def test_a_damaged_block_of_an_earlier_segment_is_not_given(tmp_path: Path) -> None:
    how, paths = filled(tmp_path, 1_000)
    data = bytearray(paths[0].read_bytes())
    data[-70] ^= 0xFF  # in a payload; its head stays intact
    paths[0].write_bytes(data)
    with Queue("s", SCHEMA, how) as queue, pytest.raises(CorruptLog, match="checksum"):
        queue.read(0).batches()


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Limits how many bytes the disk still accepts."""
    room = [1 << 40]
    real = os.pwritev

    def pwritev(fd: int, parts: list[memoryview], at: int) -> int:
        if room[0] <= 0:
            raise OSError(28, "No space left on device")
        written = real(fd, [bytes(b"".join(parts))[: room[0]]], at)
        room[0] -= written
        return written

    monkeypatch.setattr(os, "pwritev", pwritev)
    return room  # type: ignore[return-value]  # a fixture without an end


@pytest.mark.parametrize("durable", [True, False])
def test_a_full_disk_refuses_and_loses_nothing(durable: bool, tmp_path: Path, full_disk: list[int]) -> None:
    how = QueueSettings(folder=tmp_path, durable=durable, memory_bytes=1_000)
    with Queue("s", SCHEMA, how) as queue:
        queue.open_reader("r")
        queue.require(["r"])
        queue.append(batch(list(range(50))))
        full_disk[0] = 400

        def overfill() -> None:
            while True:
                end = queue.status()["end"]
                queue.append(batch(list(range(end, end + 50))))

        with pytest.raises(StorageFailed, match="free some space"):
            overfill()
        end = queue.status()["end"]
        assert ids(queue.read(0).batches()) == list(range(end))
        queue.ack("r", 10)  # readers continue
        full_disk[0] = 1 << 40
        assert queue.append(batch([end]), end).end == end + 1
    if durable:
        with Queue("s", SCHEMA, how) as queue:
            assert ids(queue.read(10).batches()) == list(range(10, end + 1))
