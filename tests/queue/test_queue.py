"""Compares the queue with a simple reference under random operations, then tests each guarantee by itself."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from links.reference import SCHEMA, ReferenceQueue, batch, ids

from kigen.queue import (
    ENDED,
    NO_PROGRESS,
    BadRequest,
    Fenced,
    OffsetAhead,
    OffsetTrimmed,
    Queue,
    QueueClosed,
    QueueFull,
    QueueInUse,
    QueueSettings,
    SchemaMismatch,
    SequenceGap,
    TrimNoteMissing,
)


def settings(folder: Path | None, rng: random.Random, durable: bool) -> QueueSettings:
    return QueueSettings(
        folder=folder,
        durable=durable,
        fsync=rng.choice(["always", "never", "never", "never", 0.01]),
        memory_bytes=rng.choice([1, 2_000, 1 << 20]),
        segment_bytes=rng.choice([1, 3_000, 1 << 20]),
        compress=rng.choice(["none", "zlib", "zstd", "lz4"]),
    )


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize(
    "seed", [*range(20), 1021, 1030, 1053]
)  # the last seed: `start` decreased over a restart after an ack ahead of the end
def test_random_operations(seed: int, durable: bool, tmp_path: Path) -> None:
    rng = random.Random(seed)
    reference = ReferenceQueue()
    how = settings(tmp_path, rng, durable)
    queue = Queue("s", SCHEMA, how)
    queue.open_producer()
    for name in ("near", "far"):
        queue.open_reader(name)
        reference.acks[name] = 0
    upcoming = 0  # number of the next new tuple; replays begin before it
    for _ in range(150):
        what = rng.choice(
            ["append", "append", "replay", "read", "read", "ack", "require", "progress", "reopen", "unit"]
        )
        if what in ("append", "replay", "unit"):
            sequence = max(0, upcoming - rng.randrange(20)) if what == "replay" else upcoming
            new = list(range(sequence, sequence + rng.randrange(0, 30)))
            progress = rng.choice([None, reference.progress + 1000 if reference.progress > NO_PROGRESS else 5])
            pieces = [new[i : i + 7] for i in range(0, len(new), 7)] if what == "unit" else [new]
            done = queue.append([batch(p) for p in pieces], sequence, progress_us=progress)
            reference.append(new, sequence, progress)
            upcoming = max(upcoming, sequence + len(new))
            reference.trim()
            assert (done.end, done.next) == (upcoming, upcoming)
        elif what == "read":
            offset = rng.randint(reference.start, len(reference.tuples))
            most = rng.choice([1, 5, 50, 10_000])
            reading = queue.read(offset, most, rng.choice([1, 300, 1 << 20]))
            assert reading.first == offset
            assert reading.count >= 1 or offset == len(reference.tuples)
            assert ids(reading.batches()) == reference.read(offset, most)[: reading.count]
            assert reading.progress_us <= reference.best_progress(reading.next)
            if reading.next == len(reference.tuples):
                assert reading.progress_us == reference.progress
        elif what == "ack":
            reader, offset = rng.choice(["near", "far"]), rng.randint(0, len(reference.tuples) + 5)
            reference.ack(reader, offset)
            assert queue.ack(reader, offset) == reference.start
        elif what == "require":
            reference.required = rng.choice([[], ["near"], ["far"], ["near", "far"]])
            reference.trim()
            assert queue.require(reference.required) == reference.start
        elif what == "progress":
            reference.promise(reference.progress + 1 if reference.progress > NO_PROGRESS else 0)
            queue.progress(reference.progress)
        elif durable:
            queue.close()
            queue = Queue("s", SCHEMA, how)
        status = queue.status()
        assert (status["start"], status["end"], status["progress_us"]) == (
            reference.start,
            len(reference.tuples),
            reference.progress,
        )
    rest = queue.read(reference.start, 1 << 30, 1 << 30)
    assert ids(rest.batches()) == reference.tuples[reference.start :]
    queue.close()


@pytest.mark.parametrize("compress", ["none", "zlib", "zstd", "lz4"])
def test_messages_hold_what_was_read(compress: str) -> None:
    """However blocks are joined or cut for sending, offsets and tuples stay the same, and no watermark is too high."""
    from kigen.queue.payload import CODECS, decode

    rng = random.Random(7)
    with Queue("s", SCHEMA, QueueSettings(compress=compress)) as queue:
        reference = ReferenceQueue()
        for _ in range(60):
            at = len(reference.tuples)
            new = list(range(at, at + rng.choice([1, 2, 40, 9_000])))
            queue.append(batch(new), at, progress_us=at)
            reference.append(new, at, at)
        for _ in range(40):
            offset = rng.randrange(len(reference.tuples))
            reading = queue.read(offset, rng.choice([1, 100, 30_000]))
            at = offset
            for record, encoded in reading.packed(CODECS[rng.choice(list(CODECS))]):
                assert record.first == at
                assert (
                    ids([decode(encoded.data, encoded.codec, SCHEMA, record.count)])
                    == reference.tuples[at : at + record.count]
                )
                at += record.count
                assert record.progress_us <= reference.best_progress(at)
            assert at == reading.next


def test_an_ack_ahead_of_the_end_trims_what_comes_later() -> None:
    """The queue of a follower learns what its readers have before it has computed it."""
    with Queue("s", SCHEMA) as queue:
        queue.open_reader("down")
        queue.require(["down"])
        queue.append(batch([0, 1]))
        assert queue.ack("down", 5) == 2
        queue.append(batch([2, 3, 4, 5, 6]))
        assert ids(queue.read(5).batches()) == [5, 6]
        with pytest.raises(OffsetTrimmed) as trimmed:
            queue.read(4)
        assert trimmed.value.data == {"start": 5, "given": 4}


def test_skip_moves_start_and_end_and_the_sequence_number(tmp_path: Path) -> None:
    how = QueueSettings(folder=tmp_path, durable=True, first=100)
    with Queue("s", SCHEMA, how) as queue:
        assert queue.open_producer().next == 100
        queue.append(batch([100, 101]), 100)
        queue.skip(500)
        with pytest.raises(SequenceGap):
            queue.append(batch([501]), 501)
        queue.append(batch([498, 499, 500]), 498)
    with Queue("s", SCHEMA, how) as queue:
        assert ids(queue.read(500).batches()) == [500]
        with pytest.raises(TrimNoteMissing):
            queue.read(0, skip_trimmed=True)


def test_a_note_belongs_to_its_place() -> None:
    """A reader that skips trimmed tuples gets the note of the ack at its first offset, or none."""
    with Queue("s", SCHEMA) as queue:
        for reader in ("leader", "behind"):
            queue.open_reader(reader)
        queue.require(["leader"])
        queue.open_producer("spark", counts="batches")

        def begins() -> tuple[int, str] | None:
            try:
                reading = queue.read(3, skip_trimmed=True)
            except TrimNoteMissing:
                return None
            return reading.first, reading.note

        queue.append(batch(list(range(6))), 0, producer="spark", epoch=1)
        queue.ack("leader", 5, note="two")
        assert begins() == (5, "two")
        queue.skip(10, "spark", 1)
        assert begins() is None, "nobody has acknowledged so far"
        assert queue.read(10, skip_trimmed=True).count == 0, "who is further is not concerned"
        queue.ack("leader", 8, note="four")
        assert begins() is None
        queue.ack("leader", 10, note="five")
        assert begins() == (10, "five")
        queue.ack("leader", 12, note="six")
        assert queue.status()["start"] == 10
        assert begins() == (10, "five")
        queue.append(batch([10]), 1, producer="spark", epoch=1)
        assert queue.status()["start"] == 11
        assert begins() is None, "its note is that of 12"
        queue.append(batch([11]), 2, producer="spark", epoch=1)
        assert begins() == (12, "six")
        queue.ack("leader", 20, note="nine")
        queue.skip(20, "spark", 1)
        assert begins() == (20, "nine"), "told before it jumped"


def test_the_note_of_the_ack_that_trimmed_comes_with_the_read() -> None:
    with Queue("s", SCHEMA) as queue:
        queue.open_reader("primary")
        queue.require(["primary"])
        queue.append(batch([0, 1, 2]))
        queue.ack("primary", 2, note='{"results": 7}')
        assert queue.read(0, skip_trimmed=True).note == '{"results": 7}'


def test_lower_epochs_are_fenced(tmp_path: Path) -> None:
    how = QueueSettings(folder=tmp_path, durable=True)
    with Queue("s", SCHEMA, how) as queue:
        assert queue.open_producer("n", epoch=3).epoch == 3
        queue.append(batch([0]), 0, producer="n", epoch=3)
        assert queue.open_producer("n").epoch == 4
        with pytest.raises(Fenced) as fenced:
            queue.append(batch([1]), 1, producer="n", epoch=3)
        assert fenced.value.data == {"epoch": 4, "given": 3}
        with pytest.raises(Fenced):
            queue.progress(9, "n", 3)
    with Queue("s", SCHEMA, how) as queue:
        with pytest.raises(Fenced):
            queue.open_producer("n", epoch=3)
        queue.open_reader("r", epoch=2)
        with pytest.raises(Fenced):
            queue.ack("r", 1, epoch=1)
        with pytest.raises(BadRequest):
            queue.append(batch([1]), 1, producer="n", epoch=9)


def test_batches_are_taken_once_whatever_they_hold(tmp_path: Path) -> None:
    how = QueueSettings(folder=tmp_path, durable=True)
    with Queue("s", SCHEMA, how) as queue:
        epoch = queue.open_producer("sink", counts="batches").epoch
        queue.append([batch([1, 2]), batch([3])], 10, producer="sink", epoch=epoch)
        queue.append([], 11, producer="sink", epoch=epoch, progress_us=70)
        assert queue.append(batch([3, 1, 2]), 10, producer="sink", epoch=epoch).old == 3
        with pytest.raises(BadRequest, match="counts batches"):
            queue.open_producer("sink")
    with Queue("s", SCHEMA, how) as queue:
        assert queue.open_producer("sink", counts="batches").next == 12
        assert queue.append(batch([9]), 11, producer="sink").old == 1
        queue.append(batch([9]), 15, producer="sink")
        reading = queue.read(0)
        assert (ids(reading.batches()), reading.progress_us) == ([1, 2, 3, 9], 70)


def test_progress_is_the_least_of_the_producers_and_holds_behind_what_was_read() -> None:
    with Queue("s", SCHEMA) as queue:
        queue.open_producer("a")
        queue.open_producer("b")
        queue.append(batch([0]), producer="a", progress_us=50)
        assert queue.read(0).progress_us == NO_PROGRESS
        queue.append(batch([1, 2]), producer="b", progress_us=30)
        assert queue.read(0).progress_us == 30
        assert queue.read(0, 2).progress_us == NO_PROGRESS  # the block of b was read in part only
        queue.progress(ENDED, "b")
        assert queue.read(3).progress_us == 50


def test_a_reader_waits_for_tuples_or_progress() -> None:
    with Queue("s", SCHEMA) as queue:
        queue.append(batch([0]), progress_us=10)
        found = []

        def wait(**how: int) -> None:
            found.append(queue.read(1, wait_s=60, **how))  # type: ignore[arg-type]  # mypy mixes up the keywords of both kinds

        for more, news in (({"known_progress_us": 10}, "progress"), ({}, "tuples"), ({"min_tuples": 3}, "many")):
            reader = threading.Thread(target=wait, kwargs=more)
            reader.start()
            if news == "progress":
                queue.progress(20)
            elif news == "tuples":
                queue.append(batch([1]))
            else:
                queue.append(batch([2]))
                queue.append(batch([3]))
            reader.join()
        assert [(r.count, r.progress_us) for r in found] == [(0, 20), (1, 20), (3, 20)]
        assert queue.read(1, min_tuples=4).count == 0
        with pytest.raises(OffsetAhead):
            queue.read(9)
        assert queue.read(9, may_be_ahead=True).count == 0


def test_back_pressure() -> None:
    with Queue("s", SCHEMA, QueueSettings(max_tuples=10)) as queue:
        queue.open_reader("r")
        queue.require(["r"])
        queue.append(batch(list(range(25))))  # a unit that is larger than the bound enters an empty queue
        with pytest.raises(QueueFull) as full:
            queue.append(batch([25]), wait_s=0)
        assert full.value.data["waiting_for"] == {"r": 0}
        assert queue.append(batch([24]), 24, wait_s=0).old == 1  # a replay needs no room
        done: list[int] = []
        writer = threading.Thread(target=lambda: done.append(queue.append(batch([25])).end))
        writer.start()
        queue.ack("r", 20)
        writer.join()
        assert done == [26]


def test_a_writer_that_waits_is_fenced_too() -> None:
    with Queue("s", SCHEMA, QueueSettings(max_tuples=1)) as queue:
        queue.open_reader("r")
        queue.require(["r"])
        epoch = queue.open_producer().epoch
        queue.append(batch([0]), 0, epoch=epoch)
        caught: list[Exception] = []

        def write() -> None:
            try:
                queue.append(batch([1]), 1, epoch=epoch)
            except Fenced as error:
                caught.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        queue.open_producer()
        queue.ack("r", 1)
        writer.join()
        assert len(caught) == 1
        assert queue.status()["end"] == 1


def test_memory_stays_bounded_and_spilled_files_go(tmp_path: Path) -> None:
    how = QueueSettings(folder=tmp_path, memory_bytes=200_000, segment_bytes=300_000)
    with Queue("s", SCHEMA, how) as queue:
        queue.open_reader("r")
        queue.require(["r"])
        for i in range(0, 200_000, 2_000):
            queue.append(batch(list(range(i, i + 2_000))))
            assert queue.status()["memory_bytes"] <= 200_000
        assert queue.status()["kept_bytes"] > 3_000_000
        assert len(list((tmp_path / "s").glob("*.log"))) > 5
        offset = 0
        while offset < 200_000:
            reading = queue.read(offset, 7_001)
            assert ids(reading.batches()) == list(range(offset, reading.next))
            offset = reading.next
            queue.ack("r", offset)
        assert len(list((tmp_path / "s").glob("*.log"))) <= 2


def test_a_reading_outlives_the_trim_of_its_files(tmp_path: Path) -> None:
    with Queue("s", SCHEMA, QueueSettings(folder=tmp_path, durable=True, memory_bytes=1, segment_bytes=1)) as queue:
        for i in range(10):
            queue.append(batch([i]))
        reading = queue.read(0)
        queue.trim(10)
        assert ids(reading.batches()) == list(range(10))


def test_closing_wakes_those_who_wait_and_one_process_owns_the_files(tmp_path: Path) -> None:
    queue = Queue("s", SCHEMA, QueueSettings(folder=tmp_path, durable=True))
    with pytest.raises(QueueInUse):
        Queue("s", SCHEMA, QueueSettings(folder=tmp_path, durable=True))
    caught: list[Exception] = []

    def wait() -> None:
        try:
            queue.read(0, wait_s=60)
        except QueueClosed as error:
            caught.append(error)

    reader = threading.Thread(target=wait)
    reader.start()
    time.sleep(0.01)
    queue.close()
    reader.join()
    assert len(caught) == 1


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    with Queue("s", SCHEMA, QueueSettings(folder=tmp_path, durable=True)) as queue:
        with pytest.raises(SchemaMismatch, match="id int64, text string"):
            queue.append(pa.record_batch({"id": [1]}))
        with pytest.raises(BadRequest, match="not open"):
            queue.ack("nobody", 1)
    with pytest.raises(SchemaMismatch, match="other columns"):
        Queue("s", pa.schema([("id", pa.int64())]), QueueSettings(folder=tmp_path, durable=True))
    for name in ("../s", "", ".s", "a/b", "x" * 200):
        with pytest.raises(BadRequest, match="stream name"):
            Queue(name, SCHEMA)
    with pytest.raises(BadRequest, match="dictionary"):
        Queue("d", pa.schema([("a", pa.dictionary(pa.int8(), pa.string()))]))
    for wrong in ({"durable": True}, {"fsync": "sometimes"}, {"compress": "rar"}, {"max_bytes": 0}):
        with pytest.raises(BadRequest):
            QueueSettings(**wrong)  # type: ignore[arg-type]  # wrong on purpose
