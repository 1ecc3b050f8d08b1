"""`/app`: changes over HTTP, their errors as JSON, and which token may make them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from standin import StandIn

from kigen.web.server import WebServer


@pytest.fixture
def server(run: StandIn, tmp_path: Path) -> Iterator[WebServer]:
    with WebServer(run, tmp_path / "serve", "127.0.0.1:0") as made:
        yield made


@pytest.fixture
def client(server: WebServer) -> Iterator[httpx.Client]:
    token = server.access.token_file.read_text().strip()
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=120) as made:
        yield made


def test_statements_are_added_dropped_and_changed(run: StandIn, client: httpx.Client) -> None:
    assert client.get("/app").json()["text"] == run.app.text
    text = "CREATE QUERY more AS SELECT k FROM posted [NOW];"
    planned = client.post("/app/add", json={"text": text, "plan": True})
    assert (planned.status_code, planned.json()["made"], len(run.app.queries)) == (200, False, 1)
    added = client.post("/app/add", json={"text": text, "replay_from": None})
    assert added.json() == {
        "made": True,
        "queries": [{"query": "hot", "action": "keep"}, {"query": "more", "action": "keep"}],
        "notes": [],
        "paused_s": 0.25,
        "text": "a table\n",
    }
    assert client.get("/app").json()["text"].endswith(text)
    assert client.post("/app/drop", json={"queries": ["more"]}).status_code == 200
    assert [q.name for q in run.app.queries] == ["hot"]
    whole = run.app.text.replace("2 SECONDS", "3 SECONDS")
    assert client.post("/app/change", json={"text": whole}).status_code == 200
    assert run.app.queries[0].deadline_us == 3_000_000


def test_errors_have_line_column_and_the_underlined_text(client: httpx.Client) -> None:
    answer = client.post("/app/add", json={"text": "\nCREATE QUERY more AS SELECT kk FROM posted [NOW];"})
    assert answer.status_code == 400
    assert answer.json() == {
        "error": "the statements have errors",
        "errors": [
            {
                "message": "unknown column kk",
                "line": 2,
                "column": 29,
                "length": 2,
                "underlined": "kk",
                "source_line": "CREATE QUERY more AS SELECT kk FROM posted [NOW];",
                "hint": "did you mean k?",
            }
        ],
    }


def test_what_is_wrong_is_said(client: httpx.Client) -> None:
    for action, body, status, words in (
        ("add", {"text": "INCLUDE '/etc/passwd';"}, 403, "INCLUDE reads a file here"),
        (
            "add",
            {"text": "CREATE TABLE t (a BIGINT) FROM csv (path = '/t.csv');"},
            403,
            "path '/t.csv' was not allowed",
        ),
        ("drop", {"queries": ["cold"]}, 409, "there is no query 'cold'"),
        ("drop", {"queries": ["hot"]}, 409, "at least one query"),
        ("add", {"text": "", "replay_from": "yesterday"}, 409, "no statement to add"),
        ("add", {}, 400, '"text" is required'),
        ("add", {"text": 3}, 400, '"text" must be of type str'),
        ("add", {"text": "", "now": 3}, 400, '"now" is not known'),
        ("drop", {"queries": "hot"}, 400, '"queries" must be of type list'),
        ("save", {"to": "/tmp/x"}, 403, "was not allowed"),
        ("save", {"to": "/tmp/x\0"}, 403, "was not allowed"),
        (
            "add",
            {
                "text": "CREATE STREAM t (a BIGINT) FROM kafka (brokers = 'h:1', topic = 't', format = 'avro', "
                "registry = 'file:///etc/passwd#'); CREATE QUERY more AS SELECT a FROM t [NOW];"
            },
            400,
            "the statements have errors",
        ),
        ("grow", {}, 404, "use one of /app/add"),
    ):
        answer = client.post(f"/app/{action}", json=body)
        assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text
    assert client.post("/app/add", content=b"{").status_code == 400
    assert client.get("/app/add").status_code == 405


def test_a_change_that_a_disk_refuses_says_so(
    run: StandIn, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device", "/data/copy")

    monkeypatch.setattr(run.changes, "save", full)
    answer = client.post("/app/save", json={"to": "/data/copy"})
    assert (answer.status_code, "No space left on device: '/data/copy'" in answer.json()["error"]) == (409, True)


def test_one_change_at_a_time(run: StandIn, client: httpx.Client) -> None:
    run.pause.clear()
    answers: list[int] = []
    text = "CREATE QUERY more AS SELECT k FROM posted [NOW];"
    first = threading.Thread(target=lambda: answers.append(client.post("/app/add", json={"text": text}).status_code))
    first.start()
    assert run.asked.wait(120)
    second = client.post("/app/drop", json={"queries": ["cold"]})
    assert (second.status_code, second.headers["retry-after"]) == (503, "2")
    run.pause.set()
    first.join(120)
    assert answers == [200]


def test_tokens_of_roles_may_do_less(run: StandIn, server: WebServer, client: httpx.Client) -> None:
    tokens = {role: client.post(f"/tokens/{role}").json()["token"] for role in ("reader", "producer")}
    assert client.post("/tokens/king").status_code == 404
    row = '{"k": "a", "v": 1}\n'
    may = {
        "reader": {("GET", "/metrics"): 200, ("GET", "/app"): 200, ("POST", "/streams/posted"): 403},
        "producer": {("GET", "/metrics"): 403, ("GET", "/health/live"): 200, ("POST", "/streams/posted"): 200},
    }
    for role, token in tokens.items():
        with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}) as one:
            for (method, path), status in may[role].items():
                assert one.request(method, path, content=row if method == "POST" else None).status_code == status
            forged = one.post("/app/drop", json={"queries": ["hot"]}, headers={"Host": "x/streams/"})
            assert forged.status_code in (400, 403)
            for path in ("/app/add", "/app/drop", "/app/change", "/app/save", "/tokens/reader", "/links"):
                answer = one.post(path, json={"queries": ["hot"]})
                assert answer.status_code == 403
                assert f"a token of the role '{role}' may not POST {path}" in answer.json()["error"]
    with httpx.Client(base_url=server.url, headers={"Authorization": "Bearer reader:" + "0" * 64}) as stranger:
        assert stranger.get("/app").status_code == 401
        assert stranger.post("/app/drop", json={"queries": ["hot"]}).status_code == 401
    assert len(run.app.queries) == 1
