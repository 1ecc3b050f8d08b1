"""Access control of a server: tokens per role, also on loopback, and the file that holds the secret."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from links.reference import SCHEMA, batch

from kigen.links import Link, LinkRefused, LinkServer, LinkWriter, Patience, Security, read_secret, secret_in
from kigen.links.flight import tokens
from kigen.links.flight.protocol import ACTIONS
from kigen.queue import BadRequest, Queue
from kigen.spark.links.link_source import Access

ONCE = Patience(patience_s=0.0, call_s=5.0)


@pytest.fixture
def server() -> Iterator[LinkServer]:
    with Queue("s", SCHEMA) as queue, LinkServer([queue]) as made:
        queue.open_reader("r")
        queue.append(batch(list(range(10))))
        yield made


def test_a_server_on_loopback_has_a_token_too(server: LinkServer) -> None:
    with (
        Link(str(server.address), patience=ONCE) as link,
        pytest.raises(LinkRefused, match="requires a token: none was given"),
    ):
        link.streams()
    with (
        Link(str(server.address), Security("another secret of length"), ONCE) as link,
        pytest.raises(LinkRefused, match="refuses the token"),
    ):
        link.streams()
    with LinkServer() as other, Link(str(other.address), server.security, ONCE) as link, pytest.raises(LinkRefused):
        link.streams()  # each server has its own token


TRIES: dict[str, Callable[[Link], object]] = {
    "status": lambda link: link.status("s"),
    "read": lambda link: link.read("s", 0, skip_trimmed=True),
    "ack": lambda link: link.ack("s", "r", 3),
    "append": lambda link: LinkWriter(link, "s", "p").close(),
    "open_producer": lambda link: link.open_producer("s", "main"),  # fences the current producer
    "require": lambda link: link.require("s", []),
    "skip": lambda link: link.skip("s", 10, "main"),
    "trim": lambda link: link.trim("s", 10),
}
ALLOWED = {
    tokens.STATUS: {"status"},
    tokens.READER: {"status", "read", "ack"},
    tokens.PRODUCER: {"status", "append", "open_producer"},
    tokens.NEIGHBOUR: {"status", "read", "ack", "require"},
    tokens.REPLICA: {"status"},
    tokens.OPERATOR: set(TRIES),
}


@pytest.mark.parametrize("role", ALLOWED)
def test_a_role_may_do_its_part_and_no_more(server: LinkServer, role: str) -> None:
    for security in (server.security.as_role(role), server.security.only(role)):
        with Link(str(server.address), security, ONCE) as link:
            for name, attempt in TRIES.items():
                if name in ALLOWED[role]:
                    attempt(link)
                else:
                    with pytest.raises(LinkRefused, match=f"the role '{role}' may not call"):
                        attempt(link)


def test_every_action_belongs_to_a_role() -> None:
    known = frozenset().union(*(calls for calls in tokens.MAY.values() if calls is not None))
    assert ACTIONS.keys() - known == {"trim", "skip"}, "an operator's alone"
    assert known - ACTIONS.keys() == {tokens.READ, tokens.APPEND}


def test_a_token_of_a_role_is_no_other(server: LinkServer) -> None:
    forged = Security(server.security.only(tokens.STATUS).token, role=tokens.OPERATOR, derived=True)
    with Link(str(server.address), forged, ONCE) as link, pytest.raises(LinkRefused):
        link.trim("s", 5)
    with pytest.raises(LinkRefused, match="belongs to the role 'status'"):
        _ = server.security.only(tokens.STATUS).only(tokens.OPERATOR)


def test_a_busy_loop_is_refused(server: LinkServer) -> None:
    with Link(str(server.address), server.security, ONCE) as link:
        with pytest.raises(BadRequest, match="max_tuples"):
            next(link.follow("s", 0, each_s=1e9, max_tuples=0))
        assert next(link.follow("s", 0, each_s=1e9)).count == 10, "a long wait is cut, not refused"


def test_streams_under_way_are_bounded(server: LinkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server._service, "_streams", threading.BoundedSemaphore(2))
    with Link(str(server.address), server.security, ONCE) as link:
        followed = [link.follow("s", 0) for _ in range(2)]
        for one in followed:
            next(one)
        with pytest.raises(BadRequest, match="under way"):
            link.read("s", 0)
        for one in followed:
            one.close()
        deadline = time.monotonic() + 120
        while True:
            try:
                assert link.read("s", 0).count == 10
                break
            except BadRequest:  # the server has not noticed yet
                assert time.monotonic() < deadline
                time.sleep(0.05)


def test_the_secret_of_a_state_directory(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(secret_in(tmp_path / "state"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found[0]) == 64
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["token"]
    file = tmp_path / "state" / "token"
    assert file.stat().st_mode & 0o777 == 0o600
    for mode in (0o640, 0o604, 0o620, 0o666):
        file.chmod(mode)
        with pytest.raises(LinkRefused, match=f"mode {mode:04o}.*chmod 600"):
            read_secret(file)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"k")
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(LinkRefused, match="chmod 600"):
        Security.from_files(key=tmp_path / "key")


def test_what_travels_in_sparks_options(tmp_path: Path) -> None:
    """Spark's options contain neither the secret, nor a token, nor the key."""
    security = Security("the secret of this test", b"a certificate", b"the key of it", b"roots")
    reader = security.only(tokens.READER)
    tokens.write_private(tmp_path / "reader.token", reader.token)
    access = Access("127.0.0.1:1", str(tmp_path / "reader.token"), security.roots)
    text = pickle.dumps(access)
    for secret in (security.token, security.key.decode(), reader.token):
        assert secret.encode() not in text
    assert access.security == reader
