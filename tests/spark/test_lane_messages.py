"""Connections between lanes, admission and sink, without Spark: a process that is gone, or silent, stops nobody."""

from __future__ import annotations

import multiprocessing
import os
import socket
import struct
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from epoch_side import Run
from test_rounds import spec_of

from kigen.spark.operator.lane import lane_runner
from kigen.spark.rounds import wire
from kigen.spark.sink.round_server import RoundServer

WAIT_S = 60.0
KEY = b"k" * 32


def echo(connection: Connection) -> None:
    wire.send(connection, wire.receive(connection)[0])


def asked(address: wire.Address, key: bytes = KEY) -> list[dict[str, Any]]:
    """Returns what a server answers, within a while."""
    answers: list[dict[str, Any]] = []

    def ask() -> None:
        with wire.connect(address, key) as connection:
            wire.send(connection, {"hello": 1})
            answers.append(wire.receive(connection)[0])

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    return answers


def test_a_client_that_says_nothing_holds_up_no_other(tmp_path: Path) -> None:
    server = wire.Server(str(tmp_path / "s"), KEY, echo, "echo")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(tmp_path / "s"))
        assert asked(server.address) == [{"hello": 1}]
    server.close()


def test_a_client_needs_the_key(tmp_path: Path) -> None:
    served: list[int] = []
    server = wire.Server(str(tmp_path / "s"), KEY, lambda connection: served.append(1), "none")
    with pytest.raises(multiprocessing.AuthenticationError):
        wire.connect(server.address, b"x" * 32)
    assert not served
    server.close()


def test_a_message_that_is_cut_off_means_that_the_other_side_is_gone() -> None:
    mine, theirs = multiprocessing.Pipe()
    os.write(theirs.fileno(), struct.pack("!i", 100) + b"abc")
    theirs.close()
    with mine, pytest.raises((ConnectionError, EOFError)):
        wire.receive(mine)


def test_a_runner_of_an_earlier_pipeline_is_not_asked(tmp_path: Path) -> None:
    """A change of the app starts a new pipeline, with a new key. The runner of the old one may still listen."""
    spec = spec_of(tmp_path)
    server = wire.Server(f"{spec.scratch}/lane-0.old", b"o" * 32, echo, "old")
    (Path(spec.scratch) / "lane-0").write_text(str(server.address), encoding="utf-8")
    wire.make_key(Path(spec.checkpoint) / wire.KEY_FILE)
    payload = {"epoch": 3, "lane": 0, "adopted": []}
    assert lane_runner._ask_runner(spec, payload, (2, "{}", None)) is None
    server.close()


def test_a_sink_that_is_closed_leaves_no_lane_waiting(tmp_path: Path) -> None:
    server = RoundServer(str(tmp_path / "s"), KEY, lambda epoch, lane: 0, lambda rounds: None, lambda ended: None)
    with wire.connect(server.address, KEY) as connection:
        wire.send(connection, {"epoch": 1, "lane": 0})
        assert wire.receive(connection)[0] == {"has": 0}
        server.close()
        outcome: list[Any] = []

        def deliver() -> None:
            try:
                wire.send(connection, {"round": 1, "rows": []})
                outcome.append(wire.receive(connection)[0])
            except (EOFError, ConnectionError) as error:
                outcome.append(error)

        thread = threading.Thread(target=deliver, daemon=True)
        thread.start()
        thread.join(10)
        assert outcome, "the lane waits for an answer forever"


def test_a_sink_that_serves_again_ends_its_first_server(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    run = Run(spec, tmp_path / "out", (None, {}))
    first = run.sink._server
    assert first is not None
    run.sink.serve(run.spec)
    assert not first._thread.is_alive()
    assert run.sink._server is not first
    while run.epoch():
        pass
    assert run.sink.finished
    run.close()
