"""`kigen up --serve`: tuples pushed to one address reach the node of their stream, and results come back from it."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import httpx
import pytest
from nodes.running import PATIENCE_S, Up, nodes_text
from typer.testing import CliRunner

from kigen.cli.main import app as kigen

pytestmark = pytest.mark.timeout(600)
APP = """CREATE STREAM posted (k STRING, v DOUBLE) FROM http ();
CREATE QUERY big AS SELECT k, v FROM posted [ROWS 100] WHERE v > 10;
"""
PLACES = """[streams.posted]
born = "a"
rate = 10
[results]
default = "b"
"""


def write(directory: Path, places: str = PLACES) -> Path:
    (directory / "nodes.toml").write_text(nodes_text("ab", places), encoding="utf-8")
    path = directory / "app.cql"
    path.write_text(APP, encoding="utf-8")
    return path


def test_a_stream_from_http_needs_a_server_at_its_node(tmp_path: Path) -> None:
    files = [str(write(tmp_path)), "--nodes", str(tmp_path / "nodes.toml")]
    for command in (["up"], ["node", "a"]):
        done = CliRunner().invoke(kigen, [*command, *files])
        assert (done.exit_code, "add --serve" in done.stderr) == (2, True), done.output
    done = CliRunner().invoke(kigen, ["up", *files, "--keep-results", "1 min"])
    assert (done.exit_code, "add --serve" in done.stderr) == (2, True)


def test_pushed_to_one_node_and_followed_on_another(tmp_path: Path) -> None:
    path, state = write(tmp_path), tmp_path / "state"
    with Up(path, "--state", str(state), "--serve", "127.0.0.1:0") as up:
        up.until(lambda told: all(about["state"] == "running" for about in told.values()), "both nodes at work")
        found = re.search(r"serving (http://127\.0\.0\.1:\d+) \(token: (.*)\)", up.said)
        assert found is not None
        headers = {"Authorization": f"Bearer {Path(found[2]).read_text().strip()}"}
        with httpx.Client(base_url=found[1], headers=headers, timeout=60) as client:
            push = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "1"}
            lines = "".join(json.dumps({"k": f"k{i}", "v": i}) + "\n" for i in range(20))
            until(lambda: client.get("/health/ready").status_code == 200)
            assert client.post("/streams/posted", content=lines, headers=push).json()["accepted"] == 20
            until(lambda: len(client.get("/queries/big").json().get("rows", ())) == 9)
            assert 'kigen_stream_taken_total{node="a",stream="posted"} 20' in client.get("/metrics").text
            told = up.status()
            os.kill(told["a"]["pid"], signal.SIGKILL)
            assert until(lambda: client.post("/streams/posted", content=lines, headers=push))["repeated"]
            push["Idempotency-Key"] = "2"
            assert until(lambda: client.post("/streams/posted", content=lines, headers=push))["accepted"] == 20
            until(lambda: len(client.get("/queries/big").json().get("rows", ())) == 18)


def until(ask: object) -> dict[str, object]:
    """Asks until the answer is true, or a response with status 200, which it returns as JSON."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = ask()  # type: ignore[operator]
        if isinstance(found, httpx.Response):
            if found.status_code == 200:
                told: dict[str, object] = found.json()
                return told
        elif found:
            return {}
        time.sleep(0.2)
    raise AssertionError("never")
