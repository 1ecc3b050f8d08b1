"""GET /queries/NAME and its changes: what is true now, events that continue, and readers that are turned away."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from standin import StandIn

from kigen.connectors.changes_log import ChangesLog
from kigen.web.requests import Limits
from kigen.web.server import WebServer


@pytest.fixture
def log(run: StandIn, tmp_path: Path) -> Iterator[ChangesLog]:
    hot = run.app.queries[0]
    made = ChangesLog(tmp_path / "changes", hot.schema, False, 3600)
    made.syncs = False
    made.open(None)
    run.followed["hot"] = made
    yield made
    made.close()


@pytest.fixture
def client(run: StandIn, log: ChangesLog, tmp_path: Path) -> Iterator[httpx.Client]:
    with WebServer(run, tmp_path / "serve", "127.0.0.1:0", Limits(followers=2)) as server:
        token = server.access.token_file.read_text().strip()
        with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=120) as made:
            yield made


def change(log: ChangesLog, op: str, k: str, v: float, at: int) -> None:
    log.write(pa.table({"c0": [k], "c1": [v], "_at": pa.array([at], pa.int64()), "_op": [op]}))
    log.commit()


def events(answer: httpx.Response, count: int) -> list[tuple[str, dict[str, object]]]:
    found, name = [], ""
    for line in answer.iter_lines():
        if line.startswith("id: "):
            name = line[4:]
        elif line.startswith("data: "):
            found.append((name, json.loads(line[6:])))
            if len(found) == count:
                return found
    raise AssertionError(f"the stream ended after {found}")


def test_the_relation_now(client: httpx.Client, log: ChangesLog) -> None:
    empty = client.get("/queries/hot").json()
    assert empty == {"query": "hot", "columns": ["k", "v"], "as_of": None, "event": "0", "rows": []}
    change(log, "insert", "a", 1.5, 0)
    change(log, "insert", "b", 2.0, 1_000_000)
    change(log, "delete", "a", 1.5, 2_000_000)
    found = client.get("/queries/hot").json()
    assert found["rows"] == [{"k": "b", "v": 2.0}]
    assert found["as_of"] == "1970-01-01T00:00:02.000000Z"


def test_changes_come_as_they_happen_and_continue_by_id(client: httpx.Client, log: ChangesLog) -> None:
    change(log, "insert", "before", 0.0, 0)
    with client.stream("GET", "/queries/hot/changes") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        next(lines := answer.iter_lines())  # the stream has begun: what was before is not part of it
        change(log, "insert", "a", 1.5, 1_000_000)
        change(log, "delete", "a", 1.5, 2_000_000)
        found = []
        for line in lines:
            if line.startswith(("id", "data")):
                found.append(line)
            if len(found) == 4:
                break
    assert json.loads(found[1][6:]) == {"_op": "insert", "_at": "1970-01-01T00:00:01.000000Z", "k": "a", "v": 1.5}
    assert json.loads(found[3][6:])["_op"] == "delete"
    change(log, "insert", "c", 3.0, 3_000_000)
    with client.stream("GET", "/queries/hot/changes", headers={"Last-Event-ID": found[0][4:]}) as answer:
        assert [change["_op"] for _, change in events(answer, 2)] == ["delete", "insert"]


def test_the_relation_and_its_event_give_all(client: httpx.Client, log: ChangesLog) -> None:
    change(log, "insert", "a", 1.0, 0)
    event = client.get("/queries/hot").json()["event"]
    change(log, "insert", "b", 2.0, 1)
    with client.stream("GET", f"/queries/hot/changes?after={event}") as answer:
        ((last, found),) = events(answer, 1)
    assert (found["k"], last) == ("b", client.get("/queries/hot").json()["event"])


def test_what_cannot_be_followed_is_refused(client: httpx.Client, log: ChangesLog) -> None:
    assert client.get("/queries/nowhere").status_code == 404
    assert "queries: hot" in client.get("/queries/nowhere/changes").json()["error"]
    gone = client.get("/queries/hot/changes", headers={"Last-Event-ID": "999"})
    assert (gone.status_code, "read /queries/hot and follow from its event" in gone.json()["error"]) == (410, True)
    assert client.get("/queries/hot/changes?after=x").status_code == 400
    log.is_stream = True
    assert client.get("/queries/hot").status_code == 409
    assert client.get("/queries").json()["queries"][0]["columns"] == ["k", "v"]


def test_too_many_readers_are_turned_away_and_leave_room_when_they_go(client: httpx.Client) -> None:
    with client.stream("GET", "/queries/hot/changes") as one, client.stream("GET", "/queries/hot/changes") as two:
        lines = [one.iter_lines(), two.iter_lines()]
        assert [next(line) for line in lines] == [": changes", ": changes"]
        assert client.get("/queries/hot/changes").status_code == 503
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with client.stream("GET", "/queries/hot/changes") as again:
            if again.status_code == 200:
                return
        time.sleep(0.02)
    raise AssertionError("nobody is let in any more")
