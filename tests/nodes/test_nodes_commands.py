"""`kigen up`, `node` and `status`: wrong input is exit 2 with what to write, trouble at the start is exit 1; no Spark
comes up here."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from links.test_links import TOKEN, certificate
from nodes.running import Up, nodes_text
from rich.console import Console
from typer.testing import CliRunner

from kigen.cli.main import app
from kigen.cli.nodes.node_command import GO, STOPPED, make_node
from kigen.cli.nodes.node_processes import NodeFailed, Processes
from kigen.cli.nodes.placing import NodesArguments, placed_parts
from kigen.cli.nodes.status_command import nodes_table
from kigen.engine.nodes.node_options import NodeOptions
from kigen.links import LinkServer, Security
from kigen.placement.nodes_file.entries import NodesFileError

APP = """CREATE STREAM cars (id BIGINT, speed DOUBLE) FROM synthetic (rate = 200, id = 'sequence', speed = 'uniform(0, 100)');
CREATE QUERY fast DEADLINE 5 SECONDS AS SELECT id, speed FROM cars [RANGE 2 SECONDS] WHERE speed > 50;
"""
PLACES = '[streams.cars]\nborn = "a"\n[results]\nfast = "b"\n'
runner = CliRunner()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "app.cql").write_text(APP, encoding="utf-8")
    (tmp_path / "nodes.toml").write_text(nodes_text("ab", PLACES), encoding="utf-8")
    return [str(tmp_path / "app.cql"), "--nodes", str(tmp_path / "nodes.toml")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes = [", "not TOML"),
        ("", "no nodes: write at least one"),
        (PLACES.replace('"a"', '"aa"') + "[nodes.a]\n[nodes.b]\n", "there is no node 'aa'; did you mean a?"),
        ("[nodes.a]\n[nodes.b]\n[results]\nfast = 'b'\n", "stream cars is born nowhere"),
        (PLACES + "[nodes.a]\n[nodes.b]\n[operators.'fast.filer']\nnodes = ['a']\n", "did you mean fast.filter?"),
        (PLACES + "[nodes.a]\n[nodes.b]\n[[links]]\nfrom = 'b'\nto = 'a'\n", "results of fast have no route to node b"),
    ],
    ids=["no TOML", "empty", "unknown node", "born nowhere", "unknown operator", "no way"],
)
def test_wrong_nodes_file(files: list[str], text: str, message: str) -> None:
    Path(files[2]).write_text(text, encoding="utf-8")
    done = runner.invoke(app, ["up", *files])
    assert done.exit_code == 2, done.output
    assert message in done.stderr


def test_missing_files(files: list[str], tmp_path: Path) -> None:
    done = runner.invoke(app, ["up", files[0], "--nodes", str(tmp_path / "no.toml")])
    assert (done.exit_code, "a nodes file is required" in done.stderr) == (2, True)
    done = runner.invoke(app, ["up", str(tmp_path / "no.cql"), *files[1:]])
    assert (done.exit_code, "an app file is required" in done.stderr) == (2, True)


@pytest.mark.parametrize("option", [["--policy", "edff"], ["--duration", "soon"]])
@pytest.mark.parametrize("command", [["up"], ["node", "a"]])
def test_wrong_options(files: list[str], command: list[str], option: list[str]) -> None:
    done = runner.invoke(app, [*command, *files, *option])
    assert done.exit_code == 2, done.output
    assert option[1] in done.stderr
    assert not Path(files[2]).with_suffix(".state").exists(), "nothing was begun"


def test_unknown_node(files: list[str]) -> None:
    done = runner.invoke(app, ["node", "aa", *files])
    assert done.exit_code == 2
    assert "there is no node 'aa'; did you mean a?" in done.stderr


@pytest.mark.parametrize("command", [["up"], ["node", "a"]])
def test_state_of_another_app(files: list[str], tmp_path: Path, command: list[str]) -> None:
    begun = NodesArguments(Path(files[0]), Path(files[2]), "deadline", 5.0, None, None, None, "pack", None)
    placed_parts(begun)
    option = ["--no-change"] if command == ["up"] else []  # otherwise it continues: test_changed_app.py
    Path(files[0]).write_text(APP.replace("speed > 50", "speed > 60"), encoding="utf-8")
    done = runner.invoke(app, [*command, *files, *option])
    assert done.exit_code == 2
    assert "another --state directory" in done.stderr
    damaged = begun.state_dir / "placement.json"
    damaged.write_text('{"format"', encoding="utf-8")
    done = runner.invoke(app, [*command, *files])
    assert done.exit_code == 2
    assert f"{damaged}" in done.stderr
    assert "delete the file" in done.stderr


def test_a_port_that_is_taken(files: list[str]) -> None:
    text = Path(files[2]).read_text(encoding="utf-8")
    port = int(text.split('"127.0.0.1:')[1].split('"')[0])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with Up(Path(files[0])) as up:
            assert up.end() == 2
            assert "node a ended" in up.said
            assert f"cannot serve at 127.0.0.1:{port}" in up.said


def test_status_when_nothing_runs(files: list[str]) -> None:
    done = runner.invoke(app, ["status", *files[1:]])
    assert done.exit_code == 0
    assert done.output.count("does not answer") == 2
    done = runner.invoke(app, ["status", *files[1:], "--format", "json"])
    assert json.loads(done.output) == {"a": None, "b": None}
    assert runner.invoke(app, ["status", *files[1:], "--format", "xml"]).exit_code == 2


def test_status_needs_the_token_and_nobodys_key(tmp_path: Path) -> None:
    security = certificate(tmp_path)
    (tmp_path / "node.pem").write_bytes(security.certificate)
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    (tmp_path / "token").chmod(0o600)
    serving = Security(TOKEN, security.certificate, security.key)
    with LinkServer(
        [],
        security=serving,
        about=lambda: {"node": "a", "role": "alone", "state": "running", "queries": {}, "queues": {}, "from": {}},
    ) as server:
        nodes = (
            f'token_file = "token"\n[nodes.a]\naddress = "{server.address}"\ncertificate = "node.pem"\nkey = '
            '"elsewhere.key"\n'
        )
        (tmp_path / "nodes.toml").write_text(nodes, encoding="utf-8")
        arguments = ["status", "--nodes", str(tmp_path / "nodes.toml")]
        done = runner.invoke(app, arguments)
        assert done.exit_code == 0, done.output
        assert "running" in done.output
        (tmp_path / "token").chmod(0o640)
        done = runner.invoke(app, arguments)
        assert done.exit_code == 2
        assert "can be read or changed by others (mode 0640): run chmod 600" in done.stderr
        (tmp_path / "token").chmod(0o600)
        (tmp_path / "token").write_text("some other letters", encoding="utf-8")
        done = runner.invoke(app, arguments)
        assert done.exit_code == 2
        assert "refuses the token" in done.stderr


@pytest.mark.parametrize("command", [["up"], ["node", "a"], ["status"]])
@pytest.mark.parametrize("what", ["token", "certificate"])
def test_a_missing_token_or_certificate(files: list[str], tmp_path: Path, command: list[str], what: str) -> None:
    text = Path(files[2]).read_text(encoding="utf-8")
    text = (
        f'token_file = "secret"\n{text}'
        if what == "token"
        else text.replace("[nodes.a]", '[nodes.a]\ncertificate = "a.pem"', 1)
    )
    Path(files[2]).write_text(text, encoding="utf-8")
    done = runner.invoke(app, [*command, *(files[1:] if command == ["status"] else files)])
    assert done.exit_code == 2, done.output
    wanted = "secret cannot be read" if what == "token" else "a.pem cannot be read"
    assert wanted in done.stderr
    assert "write 16 characters or more into it" in done.stderr or what == "certificate"
    assert not list(tmp_path.glob("*.state/*/log")), "nothing was started"


def test_a_node_that_is_killed_again_and_again_is_given_up(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if something on the machine killed it whenever it begins."""
    arguments = NodesArguments(
        Path(files[0]), Path(files[2]), "deadline", 5.0, None, tmp_path / "state", None, "pack", None
    )
    starts: list[str] = []

    def start(self: Processes, name: str) -> None:
        starts.append(name)
        log = self._log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("began\n", encoding="utf-8")
        self._running[name] = subprocess.Popen(
            [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
        )

    monkeypatch.setattr(Processes, "_start", start)
    monkeypatch.setattr("kigen.cli.nodes.node_processes._POLL_S", 0.01)
    monkeypatch.setattr("kigen.cli.nodes.restarts.FIRST_S", 0.01)
    with Processes(arguments, {"a": ("a", 0)}) as processes, pytest.raises(NodeFailed) as failed:
        processes.run(threading.Event(), lambda running: {"a": None})
    assert starts == ["a"] * 5
    assert "node a was killed 5 times before it worked (SIGKILL)" in str(failed.value)
    assert "began" in str(failed.value)


def test_a_node_that_was_asked_to_end_is_not_done(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody ended one of the nodes in good order: its work is not done, and it is started again. A standby that
    cannot start is not waited for."""
    arguments = NodesArguments(
        Path(files[0]), Path(files[2]), "deadline", 5.0, None, tmp_path / "state", None, "pack", None
    )
    ends = {"b": iter((STOPPED, STOPPED, 0)), "b.1": iter((1,)), "a": iter(("import time; time.sleep(60)",))}
    starts: list[str] = []

    def start(self: Processes, name: str) -> None:
        starts.append(name)
        log, end = self._log(name), next(ends[name])
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("", encoding="utf-8")
        self._running[name] = subprocess.Popen(
            [sys.executable, "-c", end if isinstance(end, str) else f"raise SystemExit({end})"]
        )

    def told(running: dict[str, Any]) -> dict[str, Any]:
        assert "a" in running or starts.count("b") == 3
        state = "delivering" if starts.count("b") == 3 else "ready"
        return {name: None if name == "b.1" else {"state": state} for name in ("a", "b", "b.1")}

    monkeypatch.setattr(Processes, "_start", start)
    monkeypatch.setattr("kigen.cli.nodes.node_processes._POLL_S", 0.01)
    readers = {"a": {"b"}, "b": set[str]()}
    with Processes(arguments, {"a": ("a", 0), "b": ("b", 0), "b.1": ("b", 1)}, readers) as processes:
        assert processes.run(threading.Event(), told)
    assert starts.count("b") == 3
    assert starts.count("b.1") == 1
    assert (tmp_path / "state" / GO).exists()


@pytest.mark.parametrize("alone", [False, True])
def test_a_node_that_fails_is_tried_again_while_its_other_replica_works(
    alone: bool, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As if its disk were full, twice; then it finds its work done. `b` and `b.1` are one node's."""
    arguments = NodesArguments(
        Path(files[0]), Path(files[2]), "deadline", 5.0, None, tmp_path / "state", None, "pack", None
    )
    ends = {"b": iter((1, 1, 0)), "b.1": iter((1,)) if alone else iter(("import time; time.sleep(60)",))}

    def start(self: Processes, name: str) -> None:
        log, end = self._log(name), next(ends[name])
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("No space left on device\n", encoding="utf-8")
        code = end if isinstance(end, str) else f"raise SystemExit({end})"
        self._running[name] = subprocess.Popen([sys.executable, "-c", code])

    monkeypatch.setattr(Processes, "_start", start)
    monkeypatch.setattr("kigen.cli.nodes.node_processes._POLL_S", 0.01)
    monkeypatch.setattr("kigen.cli.nodes.node_processes._RETRY_S", 0.5)
    with Processes(arguments, {"b": ("b", 0), "b.1": ("b", 1)}) as processes:
        if alone:
            with pytest.raises(NodeFailed, match="No space left on device"):
                processes.run(threading.Event(), lambda running: {"b": None})
        else:
            assert processes.run(threading.Event(), lambda running: {"b": None})
            assert capsys.readouterr().err.count("b.1 works on; b is tried again") == 2


def test_files_of_another_kind_of_standby(files: list[str], tmp_path: Path) -> None:
    nodes, _, parts = placed_parts(
        NodesArguments(Path(files[0]), Path(files[2]), "deadline", 5.0, None, None, None, "pack", None)
    )
    (tmp_path / "state/b/live.3").mkdir(parents=True)
    with pytest.raises(NodesFileError, match="were made with standby = 'passive'"):
        make_node(parts, "b", nodes, NodeOptions(tmp_path / "state"), 0)
    passive = replace(nodes, nodes=tuple(replace(entry, standby="passive") for entry in nodes.nodes))
    (tmp_path / "state/a/checkpoint").mkdir(parents=True)
    with pytest.raises(NodesFileError, match="were made with another standby, or none"):
        make_node(parts, "a", passive, NodeOptions(tmp_path / "state"), 0)


def test_status_of_one_that_keeps_copies() -> None:
    copy = {"age_s": 3.4, "sent_bytes": 1_234_567, "copies": 12}
    about = {"role": "copies", "state": "copying", "queries": {}, "queues": {}, "from": {}, "copy": copy}
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(nodes_table({"mid.1": about, "mid": {**about, "copy": {**copy, "age_s": None}}}))
    text = console.export_text()
    assert "3 s old, 1,235 KB in 12" in text
    assert "no copy yet" in text
