"""The server over real sockets: address, slow and silent clients, too many of them, and the end."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from standin import StandIn

from kigen.engine.errors import ArgumentError
from kigen.web.requests import Limits
from kigen.web.server import WebServer


@pytest.fixture
def server(run: StandIn, tmp_path: Path) -> Iterator[WebServer]:
    limits = Limits(head_s=1.0, body_s=1.0, connections=8)
    with WebServer(run, tmp_path / "serve", "127.0.0.1:0", limits) as made:
        yield made


def token(server: WebServer) -> str:
    return server.access.token_file.read_text().strip()


def connect(server: WebServer) -> socket.socket:
    return socket.create_connection((server.address.host, server.address.port), timeout=120)


def test_it_takes_batches_over_one_connection(server: WebServer, run: StandIn) -> None:
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token(server)}"}) as client:
        for i in range(20):
            answer = client.post(
                "/streams/posted", content=f'{{"v": {i}}}', headers={"Content-Type": "application/jsonl"}
            )
            assert answer.status_code == 200
    assert [row["c1"] for row in run.rows()] == list(range(20))


def test_a_silent_client_loses_its_connection(server: WebServer) -> None:
    with connect(server) as silent:
        assert silent.recv(100) == b""


def test_a_client_that_drips_its_head_loses_its_connection(server: WebServer) -> None:
    with connect(server) as slow:
        begun = time.monotonic()
        slow.setblocking(False)
        is_open = True
        while is_open:
            assert time.monotonic() - begun < 120
            with suppress(ConnectionError):
                slow.send(b"G" if time.monotonic() - begun < 0.05 else b"E")
            time.sleep(0.05)
            with suppress(BlockingIOError):
                is_open = slow.recv(100) != b""


def test_a_client_that_drips_its_body_is_refused(server: WebServer, run: StandIn) -> None:
    with connect(server) as slow:
        head = f"POST /streams/posted HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token(server)}\r\nContent-Length: 100\r\n\r\n"
        slow.sendall(head.encode() + b'{"k"')
        assert b"408" in slow.recv(1000).split(b"\r\n")[0]
    assert run.rows() == []


def test_too_many_connections_are_turned_away(server: WebServer) -> None:
    many = [connect(server) for _ in range(12)]
    try:
        time.sleep(0.1)
        last = many[-1]
        last.sendall(f"GET /health/live HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token(server)}\r\n\r\n".encode())
        assert b"503" in last.recv(1000).split(b"\r\n")[0]
    finally:
        for one in many:
            one.close()
    time.sleep(0.2)
    answer = httpx.get(f"{server.url}/health/live", headers={"Authorization": f"Bearer {token(server)}"})
    assert answer.status_code == 200


def test_a_port_in_use_and_a_wrong_address_are_named(server: WebServer, run: StandIn, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"cannot listen at .*in use.*choose another port, or 0 for any"):
        WebServer(run, tmp_path / "serve", str(server.address))
    with pytest.raises(ArgumentError, match="--serve: address 'nonsense': write host:port"):
        WebServer(run, tmp_path / "serve", "nonsense")


def test_the_page_opens_by_its_link(server: WebServer) -> None:
    with httpx.Client(follow_redirects=True) as browser:
        assert "<h1>Kigen</h1>" in browser.get(server.page_link).text
