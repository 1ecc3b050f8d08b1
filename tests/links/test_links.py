"""The guarantees of a queue hold over the wire and through kills of either side; and unauthorised callers are
refused.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from kigen_lab.servers.ports import free_ports
from links.children import SOAK, start
from links.reference import SCHEMA, SECURITY, batch, ids

from kigen.links import Acker, Link, LinkDown, LinkRefused, LinkServer, LinkWriter, Patience, Security
from kigen.queue import BadRequest, Fenced, OffsetTrimmed, Queue, QueueFull, QueueSettings, SequenceGap, UnknownStream

TOKEN = "a token of enough letters"
IMPATIENT = Patience(patience_s=0.0, call_s=5.0)


@pytest.fixture
def queue() -> Iterator[Queue]:
    with Queue("s", SCHEMA, QueueSettings(max_tuples=20_000)) as made:
        yield made


@pytest.fixture
def server(queue: Queue) -> Iterator[LinkServer]:
    with LinkServer([queue], security=SECURITY) as made:
        yield made


@pytest.fixture
def link(server: LinkServer) -> Iterator[Link]:
    with Link(str(server.address), SECURITY, patience=IMPATIENT) as made:
        yield made


@pytest.mark.parametrize("seed", range(4))
def test_random_operations_over_the_wire(seed: int, queue: Queue, link: Link) -> None:
    rng = random.Random(seed)
    link.open_reader("s", "near")
    link.open_reader("s", "far")
    link.require("s", ["near", "far"])
    acks, total = {"near": 0, "far": 0}, 0
    with LinkWriter(link, "s", compress=rng.choice(["none", "zlib", "zstd", "lz4"])) as writer:
        for _ in range(60):
            what = rng.choice(["append", "replay", "read", "ack"])
            begin = max(0, total - rng.randrange(50)) if what == "replay" else total
            if what in ("append", "replay"):
                count = rng.choice([0, 1, 20, 300])
                writer.append([batch(list(range(begin, begin + count)))], begin, progress_us=begin + count)
                total = max(total, begin + count)
                assert writer.flush().end == total
            elif what == "read":
                offset = rng.randint(min(acks.values()), total)
                most = rng.choice([1, 10, 1000])
                got = link.read("s", offset, max_tuples=most, compress=rng.choice(["none", "zlib"]))
                assert ids(got.batches) == list(range(offset, min(total, offset + most)))
                if got.next == total:
                    assert got.progress_us == queue.status()["progress_us"]
            else:
                reader = rng.choice(["near", "far"])
                acks[reader] = max(acks[reader], rng.randint(0, total))
                assert link.ack("s", reader, acks[reader]) == min(acks.values())
                if min(acks.values()):
                    with pytest.raises(OffsetTrimmed):
                        link.read("s", min(acks.values()) - 1)


def test_a_follower_gets_everything_once_and_idle_progress_too(queue: Queue, link: Link) -> None:
    got: list[int] = []
    progress: list[int] = []

    def follow() -> None:
        for piece in link.follow("s", 0, reader="f", max_tuples=7):
            assert piece.count <= 7
            got.extend(ids(piece.batches))
            progress.append(piece.progress_us)
            if piece.progress_us == 999:
                return

    reader = threading.Thread(target=follow)
    reader.start()
    for i in range(0, 200, 10):
        queue.append(batch(list(range(i, i + 10))), progress_us=i)
    queue.progress(999)
    reader.join()
    assert got == list(range(200))
    assert progress == sorted(progress)


def test_the_owner_of_a_server_hears_at_once_that_a_reader_follows(
    queue: Queue, server: LinkServer, link: Link
) -> None:
    """A replica leads from then on: results would be missing until it looked by itself."""
    seen: list[list[str]] = []
    server.on_followed = lambda: seen.append(server.followed)
    queue.append(batch([0, 1]), 0)
    assert link.read(queue.name, 0).count == 2
    assert not seen, "a single read is no reader that stays"
    assert next(link.follow(queue.name, 0, reader="me")).count == 2
    assert seen == [[f"{queue.name}/me"]]


def test_a_follower_without_patience_gives_a_broken_server_one_more_try_at_once(
    queue: Queue, server: LinkServer
) -> None:
    queue.append(batch([0]), 0)
    pauses = Patience(patience_s=0.0, first_s=300.0, call_s=1.0)
    with Link(str(server.address), SECURITY, pauses) as link:
        rows = link.follow(queue.name, 0)
        assert next(rows).count == 1
        server.close()
        began = time.monotonic()
        with pytest.raises(LinkDown):
            next(rows)
        assert time.monotonic() - began < 200, "it waited before the other server could be asked"


def test_long_poll_for_a_batch_and_skip_of_what_was_trimmed(queue: Queue, link: Link) -> None:
    """A lazy follower asks for a number of kept tuples as one block, or nothing."""
    queue.open_reader("primary")
    queue.require(["primary"])
    for i in range(30):
        queue.append(batch([i]))
    queue.ack("primary", 12, note="results: 40")
    assert link.read("s", 0, wait_s=0.05, min_tuples=25, skip_trimmed=True).count == 0
    found = []
    waiting = threading.Thread(
        target=lambda: found.append(link.read("s", 0, wait_s=30, min_tuples=25, skip_trimmed=True, compress="zlib"))
    )
    waiting.start()
    for i in range(30, 37):
        queue.append(batch([i]))
    waiting.join()
    assert (found[0].first, found[0].next, found[0].note, len(found[0].batches)) == (12, 37, "results: 40", 1)


def test_a_lazy_secondary_follows_in_batches_of_what_is_kept(queue: Queue, link: Link) -> None:
    queue.open_reader("primary")
    queue.require(["primary"])
    for i in range(23):
        queue.append(batch([i]))
    got = []
    for piece in link.follow("s", 0, min_tuples=5, max_tuples=5, skip_trimmed=True, compress="zlib"):
        got.append((piece.first, piece.next, piece.note))
        if piece.next == 20:
            queue.ack("primary", 22, note="seven")
            queue.append(batch([23, 24, 25, 26]))  # four more: with the one that is left, a batch
        if piece.next == 27:
            break
    assert got == [(0, 5, ""), (5, 10, ""), (10, 15, ""), (15, 20, ""), (22, 27, "seven")]


def test_back_pressure_over_the_wire(queue: Queue, link: Link) -> None:
    queue.open_reader("r")
    queue.require(["r"])
    writer = LinkWriter(link, "s", wait_s=0.1, window_bytes=100_000)

    def overfill() -> None:
        for i in range(0, 40_000, 1_000):
            writer.append(batch(list(range(i, i + 1_000))))

    with pytest.raises(QueueFull):
        overfill()
    sent = writer.next
    queue.ack("r", 15_000)
    assert writer.flush().next == sent  # nothing was discarded
    assert ids(queue.read(15_000).batches()) == list(range(15_000, sent))
    writer.close()


def test_leaving_while_the_server_waits_for_room(queue: Queue, link: Link) -> None:
    queue.append(batch(list(range(20_000))))
    writer = LinkWriter(link, "s", "other", wait_s=3600)
    writer.append(batch([1]))
    writer.abandon()
    for thread in threading.enumerate():
        if thread.name == "leave s":
            thread.join()
    assert queue.status()["end"] == 20_000


def test_a_second_writer_fences_the_first(queue: Queue, link: Link) -> None:
    first = LinkWriter(link, "s")
    first.append(batch([0]))
    first.flush()
    with LinkWriter(link, "s") as second:
        second.append(batch([1]))
    first.append(batch([1, 2, 3]))
    with pytest.raises(Fenced):
        first.flush()
    first.abandon()
    assert ids(queue.read(0).batches()) == [0, 1]


def test_acks_behind_the_readers_back(queue: Queue, link: Link) -> None:
    queue.open_reader("r", epoch=1)
    queue.require(["r"])
    queue.append(batch(list(range(100))))
    with Acker(link, "s", "r", epoch=1) as acker:
        for i in range(0, 90, 3):
            acker.done(i)
        assert acker.flush() == 87
        acker.done(95, "note")
    assert (queue.status()["start"], queue.status()["note"]) == (95, "note")
    queue.open_reader("r", epoch=2)
    late = Acker(link, "s", "r", epoch=1)
    late.done(99)
    with pytest.raises(Fenced):
        late.close()
    assert queue.status()["start"] == 95


def test_errors_keep_their_class_and_data(link: Link) -> None:
    with pytest.raises(UnknownStream) as unknown:
        link.status("t")
    assert unknown.value.data == {"streams": ["s"]}
    with pytest.raises(BadRequest, match="reader 'x' is not open"):
        link.ack("s", "x", 1)
    with pytest.raises(BadRequest, match="field 'offset'"):
        link.trim("s", "all")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(BadRequest, match="only these fields"):
        link.read("s", 0, evil=1)
    with pytest.raises(BadRequest, match="64 bits"):
        link.trim("s", 2**70)


def test_messages_that_are_no_records_are_refused(queue: Queue, server: LinkServer) -> None:
    queue.open_producer("p", epoch=1)
    options = fl.FlightCallOptions(headers=[(b"authorization", SECURITY.bearer.encode())])
    with fl.FlightClient(f"grpc://{server.address}") as client:
        for message in (b"x" * 10, b"KGQ1" + b"\0" * 200):
            command = json.dumps({"stream": "s", "producer": "p", "epoch": 1}).encode()
            writer, _ = client.do_put(fl.FlightDescriptor.for_command(command), pa.schema([]), options)
            writer.write_metadata(message)
            writer.done_writing()
            with pytest.raises(fl.FlightServerError, match="not a record"):
                writer.close()
    assert queue.status()["end"] == 0


def test_bytes_are_counted(queue: Queue, server: LinkServer, link: Link) -> None:
    queue.append(batch(list(range(10_000))))
    before = link.wire()
    plain = link.read("s", 0, reader="plain")
    middle = link.wire()
    link.read("s", 0, reader="packed", compress="zstd")
    after = link.wire()
    sent = server.counters.to_json()
    assert sent["s/plain"]["payload_bytes"] == link.received.payload_bytes - sent["s/packed"]["payload_bytes"]
    assert sent["s/packed"]["plain_bytes"] == sent["s/plain"]["payload_bytes"] > 2 * sent["s/packed"]["payload_bytes"]
    assert plain.count == sent["s/plain"]["tuples"] == 10_000
    if after.measured:
        for tally, (old, new) in (("s/plain", (before, middle)), ("s/packed", (middle, after))):
            framing = new.received - old.received - sent[tally]["payload_bytes"]
            assert 0 < framing < 3_000


def test_other_addresses_need_a_token_and_tls(queue: Queue) -> None:
    with pytest.raises(LinkRefused, match="a token and TLS"):
        LinkServer([queue], "0.0.0.0:0")
    with pytest.raises(LinkRefused, match="not loopback: TLS"):
        LinkServer([queue], "0.0.0.0:0", Security(token=TOKEN))
    with pytest.raises(LinkRefused, match="not loopback: a token"):
        LinkServer([queue], "0.0.0.0:0", Security(certificate=b"c", key=b"k"))
    with pytest.raises(LinkRefused, match="at least 16"):
        LinkServer([queue], "127.0.0.1:0", Security(token="short"))
    with pytest.raises(LinkRefused, match="a token and TLS"):
        Link("192.0.2.1:7070")
    with pytest.raises(LinkRefused, match="host:port"):
        Link("somewhere")
    assert TOKEN not in repr(Security(token=TOKEN))


def certificate(folder: Path) -> Security:
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext "
        "subjectAltName=DNS:localhost,IP:127.0.0.1"
    )
    subprocess.run(["openssl", *command.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    (folder / "token").write_text(TOKEN + "\n", encoding="utf-8")
    for secret in (folder / "token", key):
        secret.chmod(0o600)
    return Security.from_files(folder / "token", cert, key, cert)


def test_a_connection_that_another_thread_gave_up_is_made_anew(queue: Queue) -> None:
    with LinkServer([queue], security=SECURITY) as server, Link(str(server.address), SECURITY) as link:
        link.status("s")
        link.connection.client().close()
        assert link.status("s")["end"] == 0
        link.connection.client().close()
        queue.append(batch([0]), 0)
        assert next(iter(link.follow("s", 0))).count == 1


def test_token_and_tls(queue: Queue, tmp_path: Path) -> None:
    both = certificate(tmp_path)
    queue.append(batch([0, 1]))
    with LinkServer([queue], "0.0.0.0:0", both) as server:
        address = f"127.0.0.1:{server.address.port}"
        with Link(address, Security(token=TOKEN, roots=both.roots)) as link:  # a handshake may take its time
            assert ids(link.read("s", 0).batches) == [0, 1]
            with LinkWriter(link, "s") as writer:
                writer.append(batch([2]))
            assert link.status("s")["end"] == 3
        for wrong in (Security(roots=both.roots), Security(token="another token, long enough", roots=both.roots)):
            with Link(address, wrong) as link, pytest.raises(LinkRefused, match=r"refuses the token|requires a token"):
                link.status("s")
        with Link(address, Security(token=TOKEN), IMPATIENT) as link, pytest.raises(LinkDown):
            link.status("s")  # without TLS


def test_nobody_there_is_said_plainly() -> None:
    with (
        Link(f"127.0.0.1:{free_ports(1)[0]}", SECURITY, patience=Patience(patience_s=0.2)) as link,
        pytest.raises(LinkDown, match="is it running"),
    ):
        link.status("s")


def test_a_queue_that_forgot_is_noticed() -> None:
    """The server returns with an empty queue: the writer must report it."""
    (port,) = free_ports(1)
    with Queue("s", SCHEMA) as first, LinkServer([first], f"127.0.0.1:{port}", SECURITY) as server:
        link = Link(str(server.address), SECURITY)
        writer = LinkWriter(link, "s")
        writer.append(batch([0, 1]))
        writer.flush()
    with Queue("s", SCHEMA) as second, LinkServer([second], f"127.0.0.1:{port}", SECURITY):
        writer.append(batch([2]))
        with pytest.raises(SequenceGap):
            writer.flush()
        writer.abandon()
        link.close()


def end(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert child.stdout is not None
    child.stdout.close()


@pytest.mark.parametrize("seed", [1, 2] if SOAK else [1])
def test_kills_of_server_and_writer(seed: int, tmp_path: Path) -> None:
    """Both sides die by SIGKILL at random moments and start again; a reader gets every tuple once, in order."""
    rng = random.Random(seed)
    address, total = f"127.0.0.1:{free_ports(1)[0]}", 60_000
    server = start("server", str(tmp_path), address)
    writer = start("writer", address, str(total), str(seed))
    got: list[int] = []
    promised: list[int] = []
    trouble: list[Exception] = []
    link = Link(address, SECURITY)

    def follow() -> None:
        try:
            for piece in link.follow("s", 0, reader="down", max_tuples=1_000):
                got.extend(ids(piece.batches))
                promised.append(piece.progress_us)
                link.ack("s", "down", piece.next)
                if len(got) >= total:
                    return
        except Exception as error:
            trouble.append(error)

    reader = threading.Thread(target=follow)
    reader.start()
    kills = 0
    try:
        while reader.is_alive():
            time.sleep(rng.uniform(0.3, 1.2))
            victim = rng.choice(["server", "writer"])
            if kills < 6 and victim == "server":
                end(server)
                server = start("server", str(tmp_path), address)
                kills += 1
            elif kills < 6 or writer.poll() is not None:
                end(writer)
                kills += 1
                writer = start("writer", address, str(total), str(seed + kills))
    finally:  # a timeout must not leave them behind
        end(server)
        end(writer)
    reader.join()
    link.close()
    assert not trouble
    assert got == list(range(total))
    assert promised == sorted(promised)
