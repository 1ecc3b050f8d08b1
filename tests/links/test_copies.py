"""Each copy of files for the other replica is a state that a kill could have left, whatever is written meanwhile."""

from __future__ import annotations

import json
import shutil
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from links.children import SOAK
from links.numbered import a_queue, content, rows
from links.reference import SECURITY

from kigen.links import (
    Link,
    LinkRefused,
    LinkServer,
    OfferedCopies,
    Patience,
    Security,
    copy_info,
    fetch,
    intact,
    link_tree,
)
from kigen.links.copies.fetched import LIST, checked
from kigen.queue import BadRequest, UnknownCopy


class Writer:
    """Works like a node: plans a batch, writes its state and results, records its end, and starts the next."""

    def __init__(self, folder: Path, copies: OfferedCopies, rng: Random) -> None:
        self._files, self._copies, self._rng = folder / "checkpoint", copies, rng
        for name in ("offsets", "commits", "state", "sink"):
            (self._files / name).mkdir(parents=True)
        self.queues = {"in": a_queue(folder / "queues", "in"), "out": a_queue(folder / "queues", "out")}
        for queue, reader in ((self.queues["in"], "spark"), (self.queues["out"], "down")):
            queue.open_reader(reader)
            queue.require([reader])
        self.stopped = threading.Event()
        self.batch = self.at = 0

    def feed(self) -> None:
        queue, n, rng = self.queues["in"], 0, Random(1)
        producer = queue.open_producer("up")
        while not self.stopped.wait(rng.uniform(0, 0.001)):
            count = rng.randrange(1, 5)
            queue.append(rows(n, n + count), n, producer="up", epoch=producer.epoch)
            n += count

    def read(self) -> None:
        rng = Random(2)
        while not self.stopped.wait(rng.uniform(0, 0.003)):
            self.queues["out"].ack("down", max(0, self.queues["out"].status()["end"] - rng.randrange(20)))

    def work(self) -> None:
        producer = self.queues["out"].open_producer("spark", counts="batches")
        while not self.stopped.is_set():
            end = min(self.queues["in"].status()["end"], self.at + self._rng.randrange(1, 9))
            self._write("offsets", self.batch, [self.at, end])
            self._write("state", self.batch + 1, end)
            if end > self.at:
                self.queues["out"].append(rows(self.at, end), self.batch, producer="spark", epoch=producer.epoch)
            self._write("sink", self.batch, {"unit": self.batch, "end": end})
            self.queues["in"].ack("spark", self.at)  # the batch may have to run again
            if self._copies.due:
                self._copies.make(self._fill)
            self._write("commits", self.batch, {})
            self.batch, self.at = self.batch + 1, end
            for name in ("offsets", "commits", "state", "sink"):
                (self._files / name / str(self.batch - 5)).unlink(missing_ok=True)

    def _write(self, name: str, number: int, value: Any) -> None:
        temporary = self._files / name / f".{number}.tmp"
        temporary.write_text(json.dumps(value), encoding="utf-8")
        temporary.rename(self._files / name / str(number))

    def _fill(self, folder: Path) -> dict[str, Any]:
        link_tree(self._files, folder / "checkpoint", frozenset())
        start, _ = self.queues["in"].save(folder / "queues" / "in", rows=False)
        self.queues["out"].save(folder / "queues" / "out")
        return {"start": start}


class Desk:
    """Server side that only provides copies."""

    def __init__(self, copies: OfferedCopies) -> None:
        self.news = lambda: {"copy": copies.asked()}
        self.listed, self.pieces, self.done = copies.listed, copies.pieces, copies.done


def check(copy: Path) -> int:
    """Checks a copy like the files after a kill: the last recorded batch has plan, state and results, later ones at
    most a plan.
    """
    at = {
        name: sorted(int(p.name) for p in (copy / "checkpoint" / name).iterdir())
        for name in ("offsets", "commits", "state", "sink")
    }
    last = at["sink"][-1]
    assert at["commits"][-1:] in ([last - 1], [last], []), at
    assert last in at["offsets"]
    assert at["offsets"][-1] <= last + 1
    assert last + 1 in at["state"]
    first, end = json.loads((copy / "checkpoint/offsets" / str(last)).read_text())
    assert json.loads((copy / "checkpoint/state" / str(last + 1)).read_text()) == end
    with a_queue(copy / "queues", "in") as came, a_queue(copy / "queues", "out") as made:
        assert came.status()["start"] == came.status()["end"] <= first, "the last batch may have to be made again"
        status = made.status()
        assert status["end"] == end
        assert content(made) == list(range(status["start"], end))
        appended = made.append(rows(first, end), last, producer="spark", epoch=None) if end > first else None
        assert appended is None or appended.end == end, "what is made again is known by its number"
    return last


def test_copies_taken_at_random_moments_are_states_after_a_kill(tmp_path: Path) -> None:
    rng = Random(time.time_ns())
    copies = OfferedCopies(tmp_path / "given", 0.0)
    writer = Writer(tmp_path / "own", copies, rng)
    threads = [threading.Thread(target=work, daemon=True) for work in (writer.feed, writer.read, writer.work)]
    with (
        LinkServer(security=SECURITY) as server,
        Link(str(server.address), SECURITY, patience=Patience(patience_s=100.0, call_s=100.0)) as link,
    ):
        server.copies = Desk(copies)
        for thread in threads:
            thread.start()
        before, numbers, sent = None, list[int](), list[int]()
        while len(numbers) < (12 if SOAK else 7):
            number = link.connection.call("copy_news")["copy"]
            if number is None:
                continue
            target = tmp_path / f"copy{len(numbers)}"
            target.mkdir()
            try:
                got = fetch(link, number, before, target, rng.choice(["none", "zlib", "zstd", "lz4"]), lambda: False)
            except UnknownCopy:
                shutil.rmtree(target)
                continue
            assert got is not None
            assert copy_info(target) == got.info
            link.connection.call("copy_done", copy=number)
            numbers.append(check_of(target, tmp_path / f"opened{len(numbers)}"))
            sent.append(got.changed)
            before = target
            time.sleep(rng.uniform(0, 0.03))
        writer.stopped.set()
        for thread in threads:
            thread.join()
    for queue in writer.queues.values():
        queue.close()
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 3, "batches went on meanwhile"


def check_of(copy: Path, opened: Path) -> int:
    """Checks a copy of the copy, because opening a queue writes to it."""
    shutil.copytree(copy, opened)
    return check(opened)


def served(tmp_path: Path, files: dict[str, bytes]) -> tuple[OfferedCopies, Path]:
    own = tmp_path / "own"
    for name, data in files.items():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_bytes(data)
    copies = OfferedCopies(tmp_path / "given", 0.0)
    copies.asked()
    return copies, own


def test_only_what_changed_travels_and_large_files_in_parts(tmp_path: Path) -> None:
    large = Random(3).randbytes(9 << 20)
    copies, own = served(tmp_path, {"a/large": large, "a/b/small": b"x", "a/empty": b"", "a/.note.tmp": b"no"})

    def fill(folder: Path) -> dict[str, Any]:
        link_tree(own / "a", folder / "a", frozenset({"left"}))
        return {"n": 1}

    with LinkServer(security=SECURITY) as server, Link(str(server.address), SECURITY) as link:
        server.copies = Desk(copies)
        copies.make(fill)
        first = fetch(link, 1, None, tmp_path / "one", "none", lambda: False)
        assert first is not None
        assert (first.files, first.changed, first.plain_bytes) == (3, 3, len(large) + 1)
        assert (tmp_path / "one/a/large").read_bytes() == large
        assert (tmp_path / "one/a/empty").read_bytes() == b""
        replaced = own / "a/b/new"
        replaced.write_bytes(b"y")
        replaced.rename(own / "a/b/small")
        (own / "a/left").write_bytes(b"not this one")
        copies.done(1)
        copies.make(fill)
        second = fetch(link, 2, tmp_path / "one", tmp_path / "two", "zlib", lambda: False)
        assert second is not None
        assert (second.files, second.changed, second.plain_bytes) == (3, 1, 1)
        assert (tmp_path / "two/a/b/small").read_bytes() == b"y"
        assert (tmp_path / "two/a/large").read_bytes() == large
        assert (tmp_path / "one/a/b/small").read_bytes() == b"x", "the copy before is left as it is"
        with pytest.raises(UnknownCopy):
            link.connection.call("copy_list", copy=1)
        assert fetch(link, 2, None, tmp_path / "three", "none", lambda: True) is None
        assert copy_info(tmp_path / "three") is None
    (tmp_path / "two/a/b/small").write_bytes(b"")
    assert copy_info(tmp_path / "two") is None, "a file is not as long as it was"


def test_a_file_that_was_damaged_on_the_way_makes_no_copy(tmp_path: Path) -> None:
    copies, own = served(tmp_path, {"a/x": b"12345", "a/y": b"1"})
    copies.make(lambda folder: link_tree(own, folder, frozenset()) or {})
    desk = Desk(copies)
    with LinkServer(security=SECURITY) as server, Link(str(server.address), SECURITY) as link:
        server.copies = desk
        honest = desk.pieces
        desk.pieces = lambda *asked: honest(*asked).replace(b"12345", b"12X45")
        with pytest.raises(BadRequest, match=r"a/x of a copy.*damaged in transit"):
            fetch(link, 1, None, tmp_path / "one", "none", lambda: False)
        assert copy_info(tmp_path / "one") is None
        desk.pieces = honest
        assert fetch(link, 1, None, tmp_path / "two", "none", lambda: False) is not None
    assert intact(tmp_path / "two")
    (tmp_path / "two/a/x").write_bytes(b"12X45")
    assert copy_info(tmp_path / "two") is not None, "as long as before"
    assert not intact(tmp_path / "two")


@pytest.mark.parametrize(
    "path",
    ["../x", "/etc/x", "a/../../x", "a//x", "a/./x", "x", "", "a\\..\\x", "a/x\0", "..", "a/.."],
    ids=lambda path: repr(path),
)
def test_no_file_leaves_the_folder(path: str) -> None:
    with pytest.raises(BadRequest):
        checked([[path, 1, "m"]])


@pytest.mark.parametrize(
    "files", [None, {}, [1], [["a/b", -1, "m"]], [["a/b", "1", "m"]], [["a/b", 1]], [["a/b", True, "m"]]]
)
def test_a_list_that_is_none(files: Any) -> None:
    with pytest.raises(BadRequest):
        checked(files)
    assert checked([["a/b.c", 1, "m"]]) == [("a/b.c", 1, "m")]


@pytest.mark.parametrize(
    "pieces",
    [
        [[0, 0, 99]],
        [[9, 0, 1]],
        [[-1, 0, 1]],
        [[0, 3, 1]],
        [[0, -1, 1]],
        ["x"],
        [[0, 0]],
        [[0, 0, True]],
        [[0, 0.5, 1]],
    ],
)
def test_pieces_lie_within_listed_files(pieces: Any, tmp_path: Path) -> None:
    copies, own = served(tmp_path, {"a/x": b"12345"})
    copies.make(lambda folder: link_tree(own, folder, frozenset()) or {})
    with LinkServer(security=SECURITY) as server, Link(str(server.address), SECURITY) as link:
        with pytest.raises(BadRequest):
            link.connection.call_bytes("copy_pieces", copy=1, pieces=[[0, 0, 5]])
        server.copies = Desk(copies)
        assert link.connection.call_bytes("copy_pieces", copy=1, pieces=[[0, 1, 3]]) == b"\x0023"
        with pytest.raises(BadRequest):
            link.connection.call_bytes("copy_pieces", copy=1, pieces=pieces)


def test_copies_are_given_to_whoever_has_the_token(tmp_path: Path) -> None:
    copies, own = served(tmp_path, {"a/x": b"12345"})
    copies.make(lambda folder: link_tree(own, folder, frozenset()) or {})
    with LinkServer(security=Security(token="0123456789abcdef")) as server:
        server.copies = Desk(copies)
        with Link(str(server.address), Security(token="fedcba9876543210")) as link, pytest.raises(LinkRefused):
            fetch(link, 1, None, tmp_path / "one", "none", lambda: False)
        assert not (tmp_path / "one" / LIST).exists()
        with Link(str(server.address), Security(token="0123456789abcdef")) as link:
            assert fetch(link, 1, None, tmp_path / "one", "none", lambda: False) is not None


def test_a_copy_is_made_when_it_is_wanted_and_due_and_not_while_it_is_fetched(tmp_path: Path) -> None:
    copies = OfferedCopies(tmp_path / "given", 3600.0)
    assert not copies.due, "nobody has asked"
    assert copies.asked() is None
    assert copies.due
    copies.make(lambda _: {})
    assert copies.asked() == 1
    assert not copies.due, "the period is not over"
    often = OfferedCopies(tmp_path / "often", 0.0)
    often.asked()
    often.make(lambda _: {})
    often.listed(1)
    assert not often.due, "it is being fetched"
    often.done(1)
    assert often.due
