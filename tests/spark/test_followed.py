"""A run that serves: what was posted is seen in the relation and in its changes, also after a restart."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from kigen.engine import Engine
from kigen.web import WebServer, serve

APP = """CREATE STREAM posted (k STRING, v DOUBLE) FROM http ();
CREATE QUERY latest AS SELECT k, v FROM posted [PARTITION BY k ROWS 1];
CREATE QUERY brief AS SELECT k FROM posted [RANGE 1 SECONDS];
"""


def client(server: WebServer) -> httpx.Client:
    token = server.access.token_file.read_text().strip()
    return httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=60)


def post(http: httpx.Client, **row: Any) -> None:
    answer = http.post("/streams/posted", content=json.dumps(row), headers={"Content-Type": "application/x-ndjson"})
    assert answer.status_code == 200, answer.text


def await_rows(http: httpx.Client, query: str, wanted: list[list[Any]]) -> str:
    until = time.monotonic() + 200
    while True:
        found = http.get(f"/queries/{query}").json()
        if sorted(list(row.values()) for row in found["rows"]) == wanted:
            return str(found["event"])
        assert time.monotonic() < until, found
        time.sleep(0.05)


@pytest.mark.timeout(900)
def test_the_relation_is_served_now_and_after_a_restart(engine: Engine, tmp_path: Path) -> None:
    options = {"checkpoint": tmp_path / "ck", "keep_results": False, "keep_changes_s": 60.0}
    run = engine.start(text=APP, **options)
    with serve(run, "127.0.0.1:0") as server, client(server) as http:
        post(http, k="a", v=1)
        post(http, k="b", v=2)
        event = await_rows(http, "latest", [["a", 1.0], ["b", 2.0]])
        post(http, k="a", v=3)
        await_rows(http, "latest", [["a", 3.0], ["b", 2.0]])
        await_rows(http, "brief", [])  # all are dead after a second
        assert http.get("/health/ready").status_code == 200
        assert 'kigen_query_in_total{query="latest"} 3' in http.get("/metrics").text
    run.stop()
    run = engine.start(text=APP, **options)
    with serve(run, "127.0.0.1:0") as server, client(server) as http:
        await_rows(http, "latest", [["a", 3.0], ["b", 2.0]])
        with http.stream("GET", "/queries/latest/changes", headers={"Last-Event-ID": event}) as answer:
            found = []
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    change = json.loads(line[6:])
                    found.append((change["_op"], change["k"], change["v"]))
                    if len(found) == 2:
                        post(http, k="c", v=4)
                    elif len(found) == 3:
                        break
        assert found == [("delete", "a", 1.0), ("insert", "a", 3.0), ("insert", "c", 4.0)]
    run.stop()
