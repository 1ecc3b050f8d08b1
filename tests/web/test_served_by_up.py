"""One server for an app on nodes: requests reach the node that they are for, and figures are those of all nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from standin import StandIn
from test_following import change, events, log  # noqa: F401 - a fixture

from kigen.connectors.changes_log import ChangesLog
from kigen.web.metrics import of_nodes
from kigen.web.nodes import ServedNodes, serve_nodes
from kigen.web.server import WebServer

LINES = {"Content-Type": "application/x-ndjson"}
ABOUT = {"arrived": 7, "out": 5, "waiting": 2, "p95_ms": 1.5, "deadline_ms": 2000.0, "sdmr": 0.1}


def about(server: WebServer | None, **queries: bool) -> dict[str, object]:
    told = {name: {**ABOUT, "sent": sent} for name, sent in queries.items()}
    return {"state": "running", "serves": None if server is None else str(server.address), "queries": told}


@pytest.fixture
def nodes(run: StandIn, tmp_path: Path) -> Iterator[tuple[ServedNodes, httpx.Client]]:
    """posted is born on a, hot is given by b. Node b is the same stand-in, behind a server of its own."""
    with (
        WebServer(run, tmp_path / "a" / "serve", "127.0.0.1:0") as a,
        WebServer(run, tmp_path / "b" / "serve", "127.0.0.1:0") as b,
    ):
        tokens = {"a": a.access.token_file, "b": b.access.token_file}
        served = ServedNodes(run.app, {"posted": "a"}, {"hot": "b"}, tokens)
        served.tell({"a": about(a, **{"hot.filter": True}), "b": about(b, hot=False), "relay": None})
        with serve_nodes(served, tmp_path / "serve", "127.0.0.1:0") as server:
            token = server.access.token_file.read_text().strip()
            with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=120) as made:
                yield served, made


def test_a_batch_reaches_the_node_of_its_stream(nodes: tuple[ServedNodes, httpx.Client], run: StandIn) -> None:
    _, client = nodes
    headers = {**LINES, "Idempotency-Key": "batch-1"}
    first = client.post("/streams/posted", content='{"k": "a", "v": 1}\n{"k": "b"}\n', headers=headers)
    assert (first.status_code, first.json()) == (200, {"accepted": 2, "skipped": 0, "repeated": False})
    again = client.post("/streams/posted", content='{"k": "a", "v": 1}\n{"k": "b"}\n', headers=headers)
    assert again.json()["repeated"]
    assert [row["c0"] for row in run.rows()] == ["a", "b"]
    bad = client.post("/streams/posted", content='{"k": 1}\n', headers=LINES)
    assert (bad.status_code, bad.json()["field"]) == (400, "k")
    packed = client.post("/streams/posted", content=b"x", headers={**LINES, "Content-Encoding": "gzip"})
    assert packed.status_code == 415
    unknown = client.post("/streams/cars", content="{}", headers=LINES)
    assert (unknown.status_code, "streams FROM http (): posted" in unknown.json()["error"]) == (404, True)


def test_a_query_is_followed_where_it_is_given(nodes: tuple[ServedNodes, httpx.Client], log: ChangesLog) -> None:  # noqa: F811
    _, client = nodes
    change(log, "insert", "before", 0.0, 0)
    assert client.get("/queries/hot").json()["rows"] == [{"k": "before", "v": 0.0}]
    with client.stream("GET", "/queries/hot/changes") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        change(log, "insert", "a", 1.5, 1)
        ((name, found),) = events(answer, 1)
        assert found["k"] == "a"
    change(log, "delete", "a", 1.5, 2)
    with client.stream("GET", "/queries/hot/changes", headers={"Last-Event-ID": name}) as answer:
        assert events(answer, 1)[0][1]["_op"] == "delete"
    with client.stream("GET", f"/queries/hot/changes?after={name}") as answer:
        assert events(answer, 1)[0][1]["_op"] == "delete"
    assert client.get("/queries/cold").status_code == 404
    assert client.get("/queries").json()["queries"][0]["node"] == "b"


def test_figures_of_all_nodes(nodes: tuple[ServedNodes, httpx.Client], run: StandIn) -> None:
    _, client = nodes
    text = client.get("/metrics").text
    assert 'kigen_query_out_total{node="a",query="hot"} 5' in text
    assert 'kigen_query_out_total{node="b",query="hot"} 5' in text
    assert 'kigen_flowing{node="b"} 1' in text
    assert text.count("# TYPE kigen_flowing gauge") == 1
    assert client.get("/health/ready").json() == {"ready": True, "waits_for": []}
    assert "<td>hot</td><td>b</td><td>7</td>" in client.get("/").text
    assert "hot.filter" not in client.get("/").text, "what nodes send each other is no result"
    run.flows = False
    waits = client.get("/health/ready")
    assert (waits.status_code, waits.json()["waits_for"]) == (503, ["a", "b"])


def test_a_node_that_is_started_again(nodes: tuple[ServedNodes, httpx.Client]) -> None:
    served, client = nodes
    before = served.reports["a"]["serves"]
    served.tell({"a": None, "b": served.reports["b"]})
    answer = client.post("/streams/posted", content="{}", headers=LINES)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    served.tell({"a": {"serves": "127.0.0.1:1", "state": "running", "queries": {}}})
    assert client.post("/streams/posted", content="{}", headers=LINES).status_code == 503
    assert client.get("/health/ready").json()["waits_for"] == ["a", "b"]
    assert 'node="a"' not in client.get("/metrics").text
    served.tell({"a": {"serves": before, "state": "running", "queries": {}}})
    assert client.post("/streams/posted", content="{}", headers=LINES).status_code == 200


def test_access_is_that_of_a_run(nodes: tuple[ServedNodes, httpx.Client]) -> None:
    served, client = nodes
    assert httpx.get(f"{client.base_url}/metrics").status_code == 401
    for token in served.tokens.values():
        other = httpx.get(
            f"{client.base_url}/metrics", headers={"Authorization": f"Bearer {token.read_text().strip()}"}
        )
        assert other.status_code == 401, "the token of a node is none here"
    producer = {"Authorization": f"Bearer {client.post('/tokens/producer').json()['token']}"}
    assert (
        httpx.post(f"{client.base_url}/streams/posted", content="{}", headers={**LINES, **producer}).status_code == 200
    )
    assert httpx.get(f"{client.base_url}/queries/hot", headers=producer).status_code == 403
    assert client.get("/app").json() == {"text": served.app.text}
    refused = client.post("/app/drop", json={"queries": ["hot"]})
    assert (refused.status_code, "end 'kigen up'" in refused.json()["error"]) == (409, True)


def test_figures_are_joined_by_family() -> None:
    a = '# HELP x About x.\n# TYPE x gauge\nx 1\n# HELP y About y.\n# TYPE y counter\ny{query="q"} 2\n'
    b = "# HELP x About x.\n# TYPE x gauge\nx 3\n"
    assert of_nodes({"a": a, "b": b}).splitlines() == [
        "# HELP x About x.",
        "# TYPE x gauge",
        'x{node="a"} 1',
        'x{node="b"} 3',
        "# HELP y About y.",
        "# TYPE y counter",
        'y{node="a",query="q"} 2',
    ]
