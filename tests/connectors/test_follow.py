"""Files that grow: every complete record gets one offset, once, however it was written, renamed or truncated, and a
restart gives it the same one."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from connectors.following import Followed, Writer, restart, stream_of, write_parquet

from kigen.connectors import open_source
from kigen.connectors.source_base import InputError

NAMES = {"csv": "s.csv", "jsonl": "s.jsonl"}


@pytest.fixture(autouse=True)
def _own_process() -> None:
    restart()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("seed", range(25))
def test_random_appends_rotations_and_restarts(tmp_path: Path, kind: str, seed: int) -> None:
    """A file is appended to in pieces, renamed away and copied away. Followers begin anew at recorded offsets and must
    find the same records there."""
    log, writer, chance = tmp_path / NAMES[kind], Writer(kind, seed), random.Random(seed)
    stream, checkpoint = stream_of(kind, log.name), tmp_path / "checkpoint"
    followed = Followed(stream, tmp_path, checkpoint)
    recorded: dict[int, object] = {0: None}
    known: dict[int, int] = {}  # offset -> record
    begun, rotations = 0, 0  # offset at which the follower began

    def look(after_us: int = 300_000) -> None:
        followed.poll(after_us=after_us)
        for offset, number in enumerate(followed.ids(begun, followed.end), begun):
            assert known.setdefault(offset, number) == number, f"offset {offset} was another record before"
        recorded[followed.end] = followed.follower.path.position(followed.end)

    writer.append(log, 1)  # what was rotated before the first look does not belong to the stream
    look()
    for _ in range(60):
        deed = chance.random()
        if deed < 0.6:
            writer.append(log, chance.randint(0, 5), torn=chance.random() < 0.3)
        elif deed < 0.7 and log.exists():
            rotations += 1
            target = tmp_path / f"{log.name}.{rotations}"
            if log in writer.rest or chance.random() < 0.5:
                writer.rename(log, target)
                if chance.random() < 0.5 or target in writer.rest:  # the program still writes to the old file
                    writer.append(target, 1)
            else:
                writer.append(log, 1)
                look()
                writer.append(log, 2)  # the copy has records that were not found before
                writer.copy_and_truncate(log, target)
        elif deed < 0.85:
            look(after_us=chance.choice((300_000, 1_000)))
        elif deed < 0.95:
            restart()
            begun = chance.choice(sorted(recorded))
            cursors = {offset: at for offset, at in recorded.items() if offset >= begun}
            followed = Followed(stream, tmp_path, checkpoint, cursors)
            look()
    for path in list(writer.rest):
        writer.append(path, 0)
    writer.append(log, 1)
    look()
    look()
    assert sorted(known.values()) == list(range(writer.count))
    restart()
    followed, begun = Followed(stream, tmp_path, checkpoint, recorded), 0
    look()
    assert followed.end == writer.count


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_half_written_line_waits(tmp_path: Path, kind: str) -> None:
    log, writer = tmp_path / NAMES[kind], Writer(kind, 1)
    followed = Followed(stream_of(kind, log.name), tmp_path, tmp_path / "checkpoint")
    followed.poll()
    assert followed.end == 0
    writer.append(log, 3, torn=True)
    followed.poll()
    assert followed.end == 2
    followed.now_us += 60_000_000
    followed.poll()
    assert followed.end == 2
    writer.append(log, 0)
    followed.poll()
    assert followed.ids(0, followed.end) == [0, 1, 2]


def test_a_change_is_seen_at_once_and_what_was_left_within_a_fifth_of_a_second(tmp_path: Path) -> None:
    log, old, writer = tmp_path / "s.jsonl", tmp_path / "s.jsonl.1", Writer("jsonl", 1)
    followed = Followed(stream_of("jsonl", log.name), tmp_path, tmp_path / "checkpoint")

    def found() -> list[int]:
        followed.poll(after_us=10_000)
        return followed.ids(0, followed.end)

    assert found() == []
    writer.append(log, 1)
    assert found() == [0]
    writer.append(log, 1)
    assert found() == [0, 1]
    writer.rename(log, old)
    writer.append(log, 1)
    assert found() == [0, 1, 2]
    writer.append(old, 1)
    assert found() == [0, 1, 2], "files that were left are looked at now and then"
    followed.now_us += 200_000
    assert found() == [0, 1, 2, 3]


def test_a_new_file_of_a_directory_is_seen_within_a_fifth_of_a_second(tmp_path: Path) -> None:
    """A change shortly before the listing is due does not delay it."""
    writer, folder = Writer("jsonl", 1), tmp_path / "incoming"
    folder.mkdir()
    writer.append(folder / "a.jsonl", 1)
    followed = Followed(stream_of("jsonl", "incoming/*.jsonl"), tmp_path, tmp_path / "checkpoint")
    followed.poll(after_us=190_000)
    followed.poll(after_us=5_000)
    writer.append(folder / "b.jsonl", 1)
    followed.poll(after_us=5_000)
    assert followed.ids(0, followed.end) == [0], "the directory was listed not long ago"
    followed.poll()
    assert followed.ids(0, followed.end) == [0, 1]


def test_while_nothing_changes_no_file_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, writer = tmp_path / "s.jsonl", Writer("jsonl", 1)
    writer.append(log, 3)
    followed, opened = Followed(stream_of("jsonl", log.name), tmp_path, tmp_path / "checkpoint"), list[str]()
    followed.poll(after_us=0)
    monkeypatch.setattr("kigen.connectors.follow.followed_file.OpenFile", lambda path: opened.append(path))
    for _ in range(100):
        followed.poll(after_us=0)
    assert opened == [], "a tenth of a second"


def test_a_last_line_without_an_end_counts_once_another_file_was_begun(tmp_path: Path) -> None:
    log, writer = tmp_path / "s.jsonl", Writer("jsonl", 1)
    followed = Followed(stream_of("jsonl", log.name), tmp_path, tmp_path / "checkpoint")
    with open(log, "wb") as file:
        file.write(writer.record() + writer.record().rstrip(b"\n"))
    followed.poll()
    os.replace(log, tmp_path / "s.jsonl.1")
    writer.append(log, 2)
    followed.poll()
    assert followed.ids(0, followed.end) == [0, 2, 3]
    followed.now_us = os.stat(tmp_path / "s.jsonl.1").st_mtime_ns // 1000 + 11_000_000
    followed.poll()
    assert followed.ids(0, followed.end) == [0, 2, 3, 1]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_files_appear_in_a_directory(tmp_path: Path, kind: str) -> None:
    """By name among those that are there; one that comes later with a smaller name is read all the same."""
    folder, writer = tmp_path / "incoming", Writer(kind, 3)
    stream = stream_of(kind, f"incoming/*.{kind}")
    followed = Followed(stream, tmp_path, tmp_path / "checkpoint")
    followed.poll()
    folder.mkdir()
    expected: list[int] = []

    def add(name: str, records: int) -> None:
        path, first = folder / f"{name}.{kind}", writer.count
        if kind == "parquet":
            writer.count += records
            write_parquet(path, range(first, writer.count))
        else:
            writer.append(path, records)

    add("b", 20)
    add("c", 5)
    expected += range(25)
    followed.poll()
    add("a", 4)
    add("e", 4)
    add("d", 3)
    expected += [25, 26, 27, 28, 33, 34, 35, 29, 30, 31, 32]
    followed.poll()
    assert followed.ids(0, followed.end) == expected
    at = followed.follower.path.position(10)
    restart()
    add("f", 2)
    again = Followed(stream, tmp_path, tmp_path / "checkpoint", {10: at})
    again.poll()
    assert again.ids(10, again.end) == [*expected[10:], 36, 37]


def test_files_by_time(tmp_path: Path) -> None:
    writer = Writer("csv", 3)
    for at, name in enumerate(["z", "y", "x"]):
        writer.append(tmp_path / f"{name}.csv", 2)
        os.utime(tmp_path / f"{name}.csv", (1_700_000_000 + at, 1_700_000_000 + at))
    followed = Followed(stream_of("csv", "*.csv", order="time"), tmp_path, tmp_path / "checkpoint")
    followed.poll()
    assert followed.ids(0, followed.end) == list(range(6))
    drained = open_source(stream_of("csv", "*.csv", order="time"), str(tmp_path), True, 0)
    at, ids = drained.initial(), list[int]()
    while len(ids) < 6:
        piece = drained.advance(at, 100)
        ids += drained.read(piece).table.column("c0").to_pylist()
        at = piece.end
    assert ids == list(range(6))
    assert drained.fraction(at) == 1.0


def test_files_with_the_same_content_are_different_files(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.csv").write_text("id,note,ts\n1,x,2026-01-01T00:00:00Z\n")
    followed = Followed(stream_of("csv", "*.csv"), tmp_path, tmp_path / "checkpoint")
    followed.poll()
    (tmp_path / "b.csv").unlink()
    (tmp_path / "d.csv").write_text("id,note,ts\n1,x,2026-01-01T00:00:00Z\n")
    followed.poll()
    assert followed.end == 4


def test_a_parquet_file_counts_once_its_footer_is_written(tmp_path: Path) -> None:
    write_parquet(tmp_path / "whole", range(5))
    data = (tmp_path / "whole").read_bytes()
    followed = Followed(stream_of("parquet", "*.parquet"), tmp_path, tmp_path / "checkpoint")
    (tmp_path / "a.parquet").write_bytes(data[:-20])
    followed.poll()
    assert followed.end == 0
    (tmp_path / "a.parquet").write_bytes(data)
    followed.poll()
    assert followed.ids(2, followed.end) == [2, 3, 4]


def test_truncation_loses_only_what_was_not_read(tmp_path: Path) -> None:
    log, writer = tmp_path / "s.csv", Writer("csv", 1)
    followed = Followed(stream_of("csv", log.name), tmp_path, tmp_path / "checkpoint")
    writer.append(log, 3)
    followed.poll()
    log.write_bytes(b"")
    followed.poll()
    log.unlink()
    writer.append(log, 2)
    followed.poll()
    assert followed.follower.path.end == 5
    assert followed.ids(3, 5) == [3, 4]
    with pytest.raises(InputError, match="is gone"):
        followed.ids(0, 3)


def test_a_restart_says_that_its_file_is_gone(tmp_path: Path) -> None:
    log, writer = tmp_path / "s.csv", Writer("csv", 1)
    followed = Followed(stream_of("csv", log.name), tmp_path, tmp_path / "checkpoint")
    writer.append(log, 3)
    followed.poll()
    at = followed.follower.path.position(3)
    log.unlink()
    restart()
    with pytest.raises(InputError, match=r"s\.csv: is gone: .* Put it back"):
        Followed(stream_of("csv", log.name), tmp_path, tmp_path / "checkpoint", {3: at})


def test_a_range_of_changed_bytes_is_refused_by_its_checksum(tmp_path: Path) -> None:
    log, writer = tmp_path / "s.jsonl", Writer("jsonl", 1)
    followed = Followed(stream_of("jsonl", log.name), tmp_path, tmp_path / "checkpoint")
    writer.append(log, 100)
    followed.poll()
    piece = followed.range(50, 100)
    rows = followed.reader.read(piece)
    data = log.read_bytes()
    log.write_bytes(data[:-20] + b"9" + data[-19:])
    with pytest.raises(InputError, match="has changed since it was read: records 50 to 100"):
        followed.reader.read(replace(piece, checksum=rows.checksum))


def test_rows_have_the_arrival_of_their_poll_even_beside_bad_rows(tmp_path: Path) -> None:
    log = tmp_path / "s.jsonl"
    stream = replace(stream_of("jsonl", log.name), on_error_skip=True)
    followed = Followed(stream, tmp_path, tmp_path / "checkpoint")
    times = []
    for text in ("1", '"bad"', "3"):
        with open(log, "a", encoding="utf-8") as file:
            file.write(f'{{"id": {text}, "ts": "2026-01-01T00:00:00Z"}}\n\n')
        followed.poll()
        times.append(followed.follower.path.arrivals_us(followed.end - 1, followed.end)[0])
    rows = followed.reader.read(followed.range(0, followed.end))
    assert rows.table.column("c0").to_pylist() == [1, 3]
    assert rows.arrivals_us is not None
    assert rows.arrivals_us.tolist() == [times[0], times[2]]
    assert rows.skipped == 1
    assert ":3:" in rows.errors[0]


def test_two_readers_of_one_stream_agree(tmp_path: Path) -> None:
    log, writer, chance = tmp_path / "s.csv", Writer("csv", 5), random.Random(5)
    stream = stream_of("csv", log.name)
    both = [Followed(stream, tmp_path, tmp_path / "checkpoint") for _ in range(2)]
    for number in range(40):
        writer.append(log, chance.randint(0, 3))
        if chance.random() < 0.3 and log.exists():
            writer.rename(log, tmp_path / f"s.csv.{number}")
        chance.choice(both).poll(chance.randint(1, 4))
    writer.append(log, 1)
    for one in both:
        one.poll()
    assert both[0].ids(0, both[0].end) == both[1].ids(0, both[1].end)
    assert sorted(both[0].ids(0, both[0].end)) == list(range(writer.count))
