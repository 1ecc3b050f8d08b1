"""A run opens ports on loopback only, and each requires a secret."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.java_gateway import ensure_callback_server_started

from kigen.engine import Engine
from kigen.spark.session.callback_port import is_same_user, owner_of
from kigen.spark.session.start import SECRET_FILE, SparkUnavailable, _cluster_secret, jvm_pid


def listening(pid: int) -> list[tuple[str, int]]:
    """Returns address (hexadecimal, as the kernel writes it) and port of every socket on which a process listens."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                address, port = words[1].split(":")
                found.append((address, int(port, 16)))
    return found


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def test_every_port_is_on_loopback_and_asks_for_a_secret(engine: Engine) -> None:
    spark = engine.spark
    gateway = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.ui.enabled") == "false"
    assert conf.get("spark.authenticate") == "true", "the driver's port and the block manager's"
    assert gateway.gateway_parameters.auth_token
    assert type(gateway._callback_server).__name__ == "_SameUserServer"
    pid = jvm_pid(spark)
    assert pid is not None
    ports = listening(pid)
    assert {address for address, _ in ports} <= LOOPBACK
    assert len(ports) <= 3, "py4j, the driver, the block manager"


def test_the_callback_port_is_this_users(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own callbacks pass (every other test uses them). A connection of another user is closed unread."""
    gateway = engine.spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    monkeypatch.setattr("kigen.spark.session.callback_port.owner_of", lambda *_: 12345)
    with socket.create_connection(("127.0.0.1", gateway._callback_server.port), timeout=10) as stranger:
        stranger.sendall(b"c\np0\ncall\ne\n")
        with suppress(ConnectionResetError):
            assert stranger.recv(100) == b"", "closed, without an answer"


def test_whose_a_connection_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            assert is_same_user(accepted)
            assert owner_of(client.getsockname()[1], accepted.getsockname()[1]) == os.getuid()
            assert owner_of(1, 2) is None


def test_the_secret_of_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SECRET_FILE, raising=False)
    assert _cluster_secret() == {}
    file = tmp_path / "secret"
    file.write_text("the secret of a cluster\n")
    monkeypatch.setenv(SECRET_FILE, str(file))
    file.chmod(0o644)
    with pytest.raises(SparkUnavailable, match="chmod 600"):
        _cluster_secret()
    file.chmod(0o600)
    assert _cluster_secret() == {"spark.authenticate": "true", "spark.authenticate.secret": "the secret of a cluster"}
