"""A relay: the queue here becomes that of the node before, offset by offset, whatever is down or started again
meanwhile."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from kigen_lab.servers.ports import free_ports
from links.reference import SCHEMA, SECURITY, batch, ids

from kigen.links import LinkServer, Relay
from kigen.links.flight.connection import Connection
from kigen.queue import ENDED, OffsetTrimmed, Queue, QueueError, QueueSettings


def free_address() -> str:
    return f"127.0.0.1:{free_ports(1)[0]}"


def until(there: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 120
    while not there():
        assert time.monotonic() < end, f"not within 120 s: {what}"
        time.sleep(0.01)


def upstream(folder: Path) -> Queue:
    queue = Queue("s", SCHEMA, QueueSettings(folder=folder / "up", durable=True))
    queue.open_reader("here")
    queue.require(["here"])
    return queue


def downstream(folder: Path) -> Queue:
    queue = Queue("s", SCHEMA, QueueSettings(folder=folder / "down", durable=True))
    queue.open_reader("last")
    queue.require(["last"])
    return queue


def test_offsets_progress_and_the_end_pass(tmp_path: Path) -> None:
    with upstream(tmp_path) as up, downstream(tmp_path) as down, LinkServer([up], security=SECURITY) as server:
        relay = Relay(down, str(server.address), "here", SECURITY)
        up.append([batch([0, 1]), batch([2])], 0, progress_us=10)
        up.append(batch([3]), 3, progress_us=11)
        until(lambda: down.status()["progress_us"] == 11, "progress behind the last tuple")
        assert relay.connected
        assert ids(list(down.read(0).batches())) == [0, 1, 2, 3]
        assert ids(list(down.read(2).batches())) == [2, 3], "the offsets are those of the node before"
        up.progress(12)
        until(lambda: down.status()["progress_us"] == 12, "progress without tuples")
        up.progress(ENDED)
        until(lambda: down.status()["progress_us"] == ENDED, "the end")
        until(lambda: up.status()["kept_tuples"] == 0, "the ack of what is in the files here")
        relay.close()
        assert relay.error is None


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_either_side_goes_and_comes_back(seed: int, tmp_path: Path) -> None:
    """Units of random length; between them the server is closed for a while, or the relay and its queue are made
    anew."""
    rng = random.Random(seed)
    address = free_address()
    up, down = upstream(tmp_path), downstream(tmp_path)
    server = LinkServer([up], address, SECURITY)
    relay = Relay(down, address, "here", SECURITY)
    total = 0
    for _ in range(12):
        happens = rng.choice(("nothing", "nothing", "server", "queue", "relay"))
        if happens == "server":
            server.close()
        elif happens == "queue":  # the process of the node before, killed and started again
            server.close()
            up.close()
            up = upstream(tmp_path)
        elif happens == "relay":
            relay.close()
            down.close()
            down = downstream(tmp_path)
            relay = Relay(down, address, "here", SECURITY)
        for _ in range(rng.randint(1, 3)):
            count = rng.choice((1, 7, 400))
            up.append(batch(list(range(total, total + count))), total)
            total += count
        if happens in ("server", "queue"):
            time.sleep(rng.choice((0.0, 0.3)))
            server = LinkServer([up], address, SECURITY)
        if rng.random() < 0.5:
            done = down.status()["end"]
            down.ack("last", done)
    up.progress(ENDED)
    until(
        lambda: down.status()["progress_us"] == ENDED,
        f"the end, after {total} tuples, {down.status()['end']} are there",
    )
    start = down.status()["start"]
    assert ids(list(down.read(start, 1 << 30, 1 << 40).batches())) == list(range(start, total))
    until(lambda: up.status()["kept_tuples"] == 0, "the last ack")
    relay.close()
    server.close()
    down.close()
    up.close()


def test_a_node_that_is_not_up_yet(tmp_path: Path) -> None:
    address = free_address()
    with upstream(tmp_path) as up, downstream(tmp_path) as down:
        up.append(batch([0, 1, 2]), 0)
        relay = Relay(down, address, "here", SECURITY)
        time.sleep(0.3)
        assert not relay.connected
        assert relay.error is None
        with LinkServer([up], address, SECURITY):
            until(lambda: down.status()["end"] == 3, "the tuples that were there before")
            relay.close()


def test_what_cannot_be_healed_is_told(tmp_path: Path) -> None:
    """The files here were lost, and the node before has let go of what they held."""
    with upstream(tmp_path) as up, LinkServer([up], security=SECURITY) as server:
        up.append(batch([0, 1, 2]), 0)
        up.ack("here", 2)
        with downstream(tmp_path / "anew") as down:
            relay = Relay(down, str(server.address), "here", SECURITY)
            until(lambda: relay.error is not None, "an error")
            relay.close()
            assert isinstance(relay.error, OffsetTrimmed)


def test_a_relay_that_cannot_go_on_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is: the node must hear of it, and end."""

    def breaks(_: Relay) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(Relay, "_follow", breaks)
    with Queue("s", SCHEMA, QueueSettings(folder=tmp_path, durable=True)) as here:
        relay = Relay(here, free_address(), "n", SECURITY)
        until(lambda: relay.error is not None, "the error")
        assert "stream 's': ValueError('no such thing')" in str(relay.error)
        relay.close()


def test_an_error_of_the_library_is_one_of_ours() -> None:
    """Threads expect a LinkError, and nothing else."""
    connection = Connection("127.0.0.1:1")
    with pytest.raises(QueueError, match=r"127\.0\.0\.1:1: something of its own"):
        connection.check(pa.ArrowKeyError("something of its own"))
