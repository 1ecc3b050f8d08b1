"""Relays with two servers of the same rows: whole steps, batches, gap rows, acks on delivery.

Ids are offsets. In these tests a row whose id is 4, 9, 14, ... is a watermark row: a step is five rows. A gap row has
the id -1 less the number of results in its note.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from links.cuts import Cuttable
from links.reference import SCHEMA, SECURITY, batch, ids
from links.test_relay import free_address, until

from kigen.links import Link, LinkServer, LinkWriter, Relay, Watch
from kigen.links.relay import server_watch
from kigen.queue import ENDED, Queue, QueueSettings
from kigen.replicas.standby_kind import PassiveStandby, ReadingStandby, StandbyKind

WATCH = Watch(silence_s=0.5, every_s=0.05)
CHILDREN = Path(__file__).with_name("children.py")


def watermarks(rows: pa.RecordBatch) -> list[int]:
    return [place for place, number in enumerate(rows.column(0).to_pylist()) if number % 5 == 4 or number < 0]


def gap_row(note: str) -> pa.RecordBatch:
    return batch([-1 - int(note or 0)])


def queue_at(folder: Path, readers: list[str], required: list[str] | None = None) -> Queue:
    queue = Queue("s", SCHEMA, QueueSettings(folder=folder, durable=True))
    for reader in readers:
        queue.open_reader(reader)
    queue.require(readers if required is None else required)
    return queue


def content(queue: Queue) -> list[int]:
    return ids(list(queue.read(0, 1 << 30, 1 << 40, skip_trimmed=True).batches()))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_servers_of_the_same_rows(seed: int, tmp_path: Path) -> None:
    """Either server may be behind, and goes and comes back at random, but never both at once; no row is lost."""
    rng = random.Random(seed)
    addresses = [free_address(), free_address()]
    before = [queue_at(tmp_path / name, ["here"]) for name in "ab"]
    servers: list[LinkServer | None] = [LinkServer([q], a, SECURITY) for q, a in zip(before, addresses, strict=True)]
    here = queue_at(tmp_path / "here", ["last"])
    relay = Relay(here, addresses, "here", SECURITY, find_watermarks=watermarks, watch=WATCH)
    total, down = 600, 0
    while min(q.status()["end"] for q in before) < total:
        for queue in before:
            end = queue.status()["end"]
            count = min(rng.choice((0, 1, 5, 30)), total - end)
            if count:
                queue.append(batch(list(range(end, end + count))), end)
        if rng.random() < 0.2:
            followed = int(
                relay.address.endswith(addresses[1].rpartition(":")[2])
            )  # before one is closed: it turns over at once
            for at in (0, 1):
                server = servers[at]
                if server is None:
                    servers[at] = LinkServer([before[at]], addresses[at], SECURITY)
                elif at == followed:
                    server.close()
                    servers[at], down = None, down + 1
        time.sleep(rng.choice((0.0, 0.05)))
    for queue in before:
        queue.progress(ENDED)
    until(lambda: here.status()["progress_us"] == ENDED, "the end")
    assert content(here) == list(range(total))
    assert down
    assert relay.switched
    assert all({"suspected_s", "answered_s"} <= s.keys() for s in relay.switched[:-1])
    for at in (0, 1):
        servers[at] = servers[at] or LinkServer([before[at]], addresses[at], SECURITY)
    until(lambda: all(q.status()["kept_tuples"] == 0 for q in before), "acks at both servers, the one not followed too")
    relay.close()
    assert relay.error is None
    for server in servers:
        assert server is not None
        server.close()
    for queue in (*before, here):
        queue.close()


def test_nobody_is_left_who_answers(tmp_path: Path) -> None:
    """A server that was not there yet, or is tried in vain, does not count as a change of server."""
    addresses = [free_address(), free_address()]
    with queue_at(tmp_path / "b", ["here"]) as before, queue_at(tmp_path / "here", ["last"]) as here:
        relay = Relay(here, addresses, "here", SECURITY, watch=WATCH)
        time.sleep(0.7)
        assert not relay.connected
        with LinkServer([before], addresses[1], SECURITY):
            before.append(batch([0, 1]), 0)
            until(lambda: here.status()["end"] == 2, "the rows of the one that came")
            assert relay.switched == []
        until(lambda: len(relay.switched) == 1, "the one that left")
        time.sleep(0.7)
        assert len(relay.switched) == 1
        relay.close()


@contextmanager
def served_by_child(folder: Path, address: str) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, str(CHILDREN), "server", str(folder), address])
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def test_a_server_that_only_sleeps(tmp_path: Path) -> None:
    """A sleeping server takes connections (the kernel does) and does not answer: the relay follows the other, and this one
    again when the other goes."""
    addresses = [free_address(), free_address()]
    with (
        served_by_child(tmp_path / "a", addresses[0]) as sleeper,
        queue_at(tmp_path / "b", ["down"]) as other,
        queue_at(tmp_path / "here", ["last"]) as here,
    ):
        with Link(addresses[0], SECURITY) as link, LinkWriter(link, "s") as out:
            out.append(batch(list(range(10))))
        other.append(batch(list(range(20))), 0)
        relay = Relay(here, addresses, "down", SECURITY, find_watermarks=watermarks, watch=WATCH)
        until(lambda: here.status()["end"] == 10, "its rows")
        sleeper.send_signal(signal.SIGSTOP)
        with LinkServer([other], addresses[1], SECURITY):
            until(lambda: here.status()["end"] == 20, "the rows of the other")
            assert relay.address == addresses[1]
            sleeper.send_signal(signal.SIGCONT)
            time.sleep(0.3)
            assert relay.address == addresses[1], "one that is back is not turned to"
        with Link(addresses[0], SECURITY) as link, LinkWriter(link, "s") as out:
            out.append(batch(list(range(10, 30))))
        until(lambda: here.status()["end"] == 30, "the rest of the first")
        assert content(here) == list(range(30))
        relay.close()


def test_only_whole_steps(tmp_path: Path) -> None:
    with (
        queue_at(tmp_path / "a", ["here"]) as before,
        queue_at(tmp_path / "here", ["last"]) as here,
        LinkServer([before], security=SECURITY) as server,
    ):
        relay = Relay(here, str(server.address), "here", SECURITY, find_watermarks=watermarks)
        for first, end, whole in ((0, 3, 0), (3, 8, 5), (8, 9, 5), (9, 21, 20)):
            before.append(batch(list(range(first, end))), first)
            until(lambda whole=whole: here.status()["end"] == whole, f"{whole} rows")
            time.sleep(0.05)
            assert content(here) == list(range(whole))
        until(lambda: before.status()["start"] == 20, "the ack of whole steps")
        relay.close()


def test_batches_for_one_that_stands_by(tmp_path: Path) -> None:
    """A follower takes whole batches, until it has to lead, or nothing more will come."""
    with (
        queue_at(tmp_path / "a", ["here"]) as before,
        queue_at(tmp_path / "here", ["last"]) as here,
        LinkServer([before], security=SECURITY) as server,
    ):
        relay = Relay(
            here, str(server.address), "here", SECURITY, kind=ReadingStandby("zlib", 20), find_watermarks=watermarks
        )
        until(lambda: relay.connected, "a connection")
        before.append(batch(list(range(19))), 0)
        time.sleep(0.2)
        assert content(here) == []
        before.append(batch([19, 20]), 19)
        until(lambda: here.status()["end"] == 20, "a batch")
        before.append(batch(list(range(21, 30))), 21)
        time.sleep(0.2)
        assert content(here) == list(range(20))
        relay.lead(True)
        until(lambda: here.status()["end"] == 30, "all, since it leads")
        relay.lead(False)
        before.append(batch(list(range(30, 35))), 30)
        time.sleep(0.2)
        assert content(here) == list(range(30))
        before.progress(ENDED)
        until(lambda: here.status()["progress_us"] == ENDED, "the rest and the end")
        assert content(here) == list(range(35))
        relay.close()


def test_acks_on_delivery_stand_at_watermark_rows(tmp_path: Path) -> None:
    """Work may end within a step, or within what came at once: the relay acknowledges the last watermark row before."""
    with queue_at(tmp_path / "a", ["n", "n.1"], ["n"]) as before, queue_at(tmp_path / "here", ["last"]) as here:
        server = LinkServer([before], security=SECURITY)
        relay = Relay(
            here,
            str(server.address),
            "n",
            SECURITY,
            kind=ReadingStandby("none", 10, skips_trimmed=True),
            find_watermarks=watermarks,
            make_gap_row=gap_row,
        )
        relay.lead(True)
        before.append(batch(list(range(40))), 0)
        until(lambda: here.status()["end"] == 40, "the rows")
        assert before.status()["start"] == 0
        for here_done, note, there in ((3, "0", 0), (12, "7", 10), (14, "7", 10), (15, "9", 15)):
            relay.ack(here_done, note)
            until(lambda there=there: before.status()["start"] == there, f"the ack of {there}")
            assert before.status()["note"] == ("" if not there else note if here_done != 14 else "7")
        address = str(server.address)
        server.close()
        time.sleep(0.1)
        relay.ack(40, "21")  # nobody is there to take it
        with LinkServer([before], address, SECURITY):
            until(lambda: before.status()["start"] == 40, "the ack, when it is heard again")
            assert before.status()["note"] == "21"
            relay.close()


def test_the_one_that_leads_is_the_one_whose_acks_count(tmp_path: Path) -> None:
    with (
        queue_at(tmp_path / "a", ["n", "n.1", "x"], ["n", "x"]) as before,
        queue_at(tmp_path / "here", ["last"]) as here,
        LinkServer([before], security=SECURITY) as server,
    ):
        relay = Relay(
            here,
            str(server.address),
            "n.1",
            SECURITY,
            kind=ReadingStandby("none", 10, skips_trimmed=True),
            find_watermarks=watermarks,
            make_gap_row=gap_row,
        )
        until(lambda: relay.connected, "a connection")
        assert sorted(before.status()["required"]) == ["n", "x"]
        relay.lead(True)
        until(lambda: sorted(before.status()["required"]) == ["n.1", "x"], "its name instead of the other's")
        before.append(batch(list(range(10))), 0, progress_us=ENDED)
        until(lambda: here.status()["end"] == 10, "the rows")
        before.ack("x", 10)
        assert before.status()["start"] == 0
        relay.release(["n", "n.1"])
        assert before.status()["start"] == 10
        relay.close()


def test_a_leader_says_again_that_its_acks_count(tmp_path: Path) -> None:
    """The other replica led for a moment, too, and reported it; this one led all the time."""
    with (
        queue_at(tmp_path / "a", ["n", "n.1"], ["n"]) as before,
        queue_at(tmp_path / "here", ["last"]) as here,
        LinkServer([before], security=SECURITY) as server,
    ):
        watch = replace(WATCH, alone=True)
        relay = Relay(
            here,
            str(server.address),
            "n",
            SECURITY,
            ReadingStandby("none", 10, skips_trimmed=True),
            watermarks,
            gap_row,
            watch,
        )
        relay.lead(True)
        before.append(batch(list(range(10))), 0)
        until(lambda: here.status()["end"] == 10, "the rows")
        before.require(["n.1"])
        until(lambda: before.status()["required"] == ["n"], "its name again")
        relay.ack(10, "3")
        until(lambda: before.status()["start"] == 10, "its ack")
        relay.lead(False)
        before.require(["n.1"])
        time.sleep(0.5)
        assert before.status()["required"] == ["n.1"], "one that stands by leaves that to the leader"
        relay.close()


def test_the_role_may_change_at_any_moment(tmp_path: Path) -> None:
    """The role changes again and again: the relay notices at every moment."""
    rng = random.Random(5)
    with (
        queue_at(tmp_path / "a", ["here"]) as before,
        queue_at(tmp_path / "here", ["last"]) as here,
        LinkServer([before], security=SECURITY) as server,
    ):
        relay = Relay(
            here, str(server.address), "here", SECURITY, kind=ReadingStandby("none", 1000), find_watermarks=watermarks
        )
        for first in range(0, 200, 5):
            time.sleep(rng.choice((0.0, 0.0005, 0.005, 0.02)))
            relay.lead(False)
            before.append(batch(list(range(first, first + 5))), first)
            time.sleep(rng.choice((0.0, 0.0005, 0.005)))
            relay.lead(True)
            until(lambda end=first + 5: here.status()["end"] == end, "the rows of the step")
        relay.close()


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_gap_rows_where_rows_were_trimmed(seed: int, tmp_path: Path) -> None:
    """A follower that skips trimmed rows is made anew at random. The leader acknowledges at random, with the number of
    results so far (here: a third of the rows). The rows that were never trimmed come in order, nothing twice, and a gap
    row with the number of results stands for the others."""
    rng = random.Random(seed)
    size, address = 10, free_address()
    before, here = queue_at(tmp_path / "a", ["n", "n.1"], ["n"]), queue_at(tmp_path / "here", ["last"])
    kind = ReadingStandby("zlib", size, skips_trimmed=True)

    def made() -> Relay:
        return Relay(here, address, "n.1", SECURITY, kind=kind, find_watermarks=watermarks, make_gap_row=gap_row)

    total = 0
    with LinkServer([before], address, SECURITY) as server:
        relay = made()
        for _ in range(60):
            count = rng.choice((1, 3, 5, 12))
            before.append(batch(list(range(total, total + count))), total)
            total += count
            if rng.random() < 0.5:
                upto = rng.randint(before.status()["start"], total) // 5 * 5
                before.ack("n", upto, note=str(upto // 3))
            if rng.random() < 0.15:
                relay.close()
                here.close()
                here = queue_at(tmp_path / "here", ["last"])
                relay = made()
            time.sleep(rng.choice((0.0, 0.0, 0.03)))
        sent = server.counters.of("s/n.1").tuples
        assert sent < total, "nothing was left out"
        before.append(batch(list(range(total, total + 5 - total % 5))), total, progress_us=ENDED)
        until(lambda: here.status()["progress_us"] == ENDED, "the end")
        relay.close()
        assert relay.error is None
    found, at, gaps = content(here), 0, 0
    for place, number in enumerate(found):
        if number < 0:
            at = found[place + 1]
            gaps += 1
            assert -1 - number == at // 3, "as many results as the leader said"
            assert at % 5 == 0
        else:
            assert number == at, "in order, nothing twice, nothing left out but at gap rows"
            at += 1
    assert gaps
    assert at == before.status()["end"]
    before.close()
    here.close()


def test_a_server_that_does_not_know_the_note_is_left(tmp_path: Path) -> None:
    """It has jumped, and only the other server knows the leader's ack of that offset."""
    a, b = (queue_at(tmp_path / name, ["n", "n.1"], ["n"]) for name in "ab")
    with (
        a,
        b,
        queue_at(tmp_path / "here", ["last"]) as here,
        LinkServer([a], security=SECURITY) as first,
        LinkServer([b], security=SECURITY) as second,
    ):
        b.append(batch(list(range(20))), 0)
        b.ack("n", 15, note="5")
        a.open_producer("main")
        a.skip(15)
        a.append(batch(list(range(15, 20))), 15)
        relay = Relay(
            here,
            [str(first.address), str(second.address)],
            "n.1",
            SECURITY,
            ReadingStandby("none", None, skips_trimmed=True),
            watermarks,
            gap_row,
            WATCH,
        )
        until(lambda: here.status()["end"] == 6, "the rows")
        assert content(here) == [-6, 15, 16, 17, 18, 19]
        assert relay.address == str(second.address)
        assert relay.switched == [], "nobody was gone"
        relay.close()


@pytest.mark.parametrize("skipping", [False, True])
def test_released_before_it_was_heard_again(skipping: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is started again with everything done may end before its relay has reached the upstream node."""
    kind: StandbyKind = ReadingStandby(skips_trimmed=True) if skipping else PassiveStandby()
    with (
        queue_at(tmp_path / "a", ["n", "n.1"], ["n"]) as before,
        queue_at(tmp_path / "here", ["last"]) as here,
        LinkServer([before], security=SECURITY) as server,
    ):
        before.append(batch(list(range(10))), 0)
        relay = Relay(
            here,
            str(server.address),
            "n",
            SECURITY,
            kind=kind,
            find_watermarks=watermarks,
            make_gap_row=gap_row,
            leads=not skipping,
        )
        until(lambda: here.status()["end"] == 10, "the rows")
        relay.close()
        assert before.status()["start"] == 0
        monkeypatch.setattr(Relay, "_work", lambda _: None)  # it never reaches the upstream node
        again = Relay(
            here,
            str(server.address),
            "n",
            SECURITY,
            kind=kind,
            find_watermarks=watermarks,
            make_gap_row=gap_row,
            leads=not skipping,
        )
        again.release(["n", "n.1"])
        assert before.status()["start"] == 10
        again.close()


@pytest.mark.parametrize("silent", [False, True], ids=["broken", "swallowed"])
def test_a_cut_link_is_noticed_and_healed(silent: bool, tmp_path: Path) -> None:
    with (
        queue_at(tmp_path / "a", ["here"]) as before,
        queue_at(tmp_path / "here", ["last"]) as here,
        LinkServer([before], security=SECURITY) as server,
    ):
        link = Cuttable(str(server.address))
        relay = Relay(
            here, link.address, "here", SECURITY, find_watermarks=watermarks, watch=replace(WATCH, alone=True)
        )
        before.append(batch(list(range(5))), 0)
        until(lambda: here.status()["end"] == 5, "the first step")
        assert relay.cut_off_s == 0
        link.silent = silent
        if not silent:
            link.cut()
        before.append(batch(list(range(5, 10))), 5)
        until(lambda: relay.cut_off_s > 0.3, "that nothing comes")
        assert here.status()["end"] == 5
        link.heal()
        until(lambda: here.status()["end"] == 10, "the second step")
        until(lambda: relay.cut_off_s == 0, "that the upstream node answers")
        before.append(batch(list(range(10, 15))), 10, progress_us=ENDED)
        until(lambda: here.status()["progress_us"] == ENDED, "the end")
        link.cut()
        time.sleep(0.3)
        assert relay.cut_off_s == 0, "nothing more will come"
        relay.close()
        link.close()


def test_a_server_that_is_cut_off_is_left_for_one_that_is_not(tmp_path: Path) -> None:
    cut_off = {"a": False, "b": False}
    before = {name: queue_at(tmp_path / name, ["here"]) for name in "ab"}
    with (
        LinkServer([before["a"]], security=SECURITY, cut_off=lambda: cut_off["a"]) as a,
        LinkServer([before["b"]], security=SECURITY, cut_off=lambda: cut_off["b"]) as b,
        queue_at(tmp_path / "here", ["last"]) as here,
    ):
        relay = Relay(here, [str(a.address), str(b.address)], "here", SECURITY, find_watermarks=watermarks, watch=WATCH)
        until(lambda: relay.connected, "somebody")
        first = relay.address
        one, other = ("a", "b") if first == str(a.address) else ("b", "a")
        cut_off[one] = cut_off[other] = True
        time.sleep(1.5)
        assert relay.address == first, "the other is cut off, too"
        assert not relay.switched
        cut_off[other] = False
        until(lambda: relay.address != first and relay.connected, "the other")
        before[other].append(batch(list(range(5))), 0)
        until(lambda: here.status()["end"] == 5, "its rows")
        assert len(relay.switched) == 1
        relay.close()
    for queue in before.values():
        queue.close()


@pytest.mark.parametrize("more", [0, 1])
def test_readers_that_follow_different_servers_meet(more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They meet at the server that more of them follow, else at the first; that does not count as a change of server."""
    monkeypatch.setattr(server_watch, "_MEET_S", 1.0)
    addresses = [free_address(), free_address()]
    names = ["early"] * (1 + more) + ["late"]
    readers = [f"{name}{i}" for i, name in enumerate(names)]
    before = [queue_at(tmp_path / str(i), readers) for i in range(2)]
    here = {name: queue_at(tmp_path / name, ["last"]) for name in readers}
    with LinkServer([before[1]], addresses[1], SECURITY):
        relays = [
            Relay(here[name], addresses, name, SECURITY, find_watermarks=watermarks, watch=WATCH)
            for name in readers[:-1]
        ]
        until(lambda: all(relay.connected and relay.address == addresses[1] for relay in relays), "the second server")
        with LinkServer([before[0]], addresses[0], SECURITY):
            relays.append(
                Relay(here[readers[-1]], addresses, readers[-1], SECURITY, find_watermarks=watermarks, watch=WATCH)
            )
            until(lambda: relays[-1].connected, "the late one")
            assert relays[-1].address == addresses[0]
            for queue in before:
                queue.append(batch(list(range(10))), 0)
            meet = addresses[1 if more else 0]
            until(lambda: all(relay.connected and relay.address == meet for relay in relays), "one server")
            for queue in before:
                queue.append(batch(list(range(10, 20))), 10)
            until(lambda: all(queue.status()["end"] == 20 for queue in here.values()), "the rest")
            time.sleep(2)  # readers look at each other again
            assert all(relay.address == meet for relay in relays), "they stay"
            assert all(relay.switched == [] for relay in relays)
            assert all(content(queue) == list(range(20)) for queue in here.values())
            for relay in relays:
                relay.close()
    for queue in (*before, *here.values()):
        queue.close()
