"""POST /streams/NAME: what is taken, what is refused, and how."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from standin import StandIn

from kigen.web.requests import Limits
from kigen.web.server import WebServer

LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def client(run: StandIn, tmp_path: Path) -> Iterator[httpx.Client]:
    with WebServer(run, tmp_path / "serve", "127.0.0.1:0", Limits(body_bytes=20_000)) as server:
        token = server.access.token_file.read_text().strip()
        with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}) as made:
            yield made


def test_a_batch_is_taken(client: httpx.Client, run: StandIn) -> None:
    answer = client.post("/streams/posted", content='{"k": "a", "v": 1}\n{"k": "b"}\n', headers=LINES)
    assert answer.status_code == 200
    assert answer.json() == {"accepted": 2, "skipped": 0, "repeated": False}
    assert [(row["c0"], row["c1"]) for row in run.rows()] == [("a", 1.0), ("b", None)]


def test_csv_is_taken(client: httpx.Client, run: StandIn) -> None:
    answer = client.post("/streams/posted", content="v,k\n1.5,x\n", headers={"Content-Type": "text/csv"})
    assert answer.json()["accepted"] == 1
    assert run.rows()[0]["c1"] == 1.5


def test_a_key_makes_a_retry_safe(client: httpx.Client, run: StandIn) -> None:
    headers = {**LINES, "Idempotency-Key": "batch-1"}
    first = client.post("/streams/posted", content='{"k": "a"}', headers=headers)
    again = client.post("/streams/posted", content='{"k": "a"}', headers=headers)
    other = client.post("/streams/posted", content='{"k": "b"}', headers=headers)
    assert (first.json()["repeated"], again.json()["repeated"]) == (False, True)
    assert other.status_code == 422
    assert "belongs to another batch" in other.json()["error"]
    assert len(run.rows()) == 1


def test_a_bad_row_is_named_and_nothing_is_taken(client: httpx.Client, run: StandIn) -> None:
    answer = client.post("/streams/posted", content='{"k": "a"}\n{"k": 1}\n', headers=LINES)
    assert answer.status_code == 400
    assert answer.json() == {
        "error": "batch:2: field 'k': STRING required, found '1': write text in UTF-8",
        "row": 2,
        "field": "k",
    }
    assert run.rows() == []


def test_a_full_buffer_makes_the_sender_wait(client: httpx.Client, run: StandIn) -> None:
    assert client.post("/streams/posted", content='{"k": "a"}\n' * 800, headers=LINES).status_code == 200
    answer = client.post("/streams/posted", content='{"k": "a"}\n' * 300, headers=LINES)
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"
    assert run.ingest is not None
    run.ingest.committed({}, {"posted": 800})
    assert client.post("/streams/posted", content='{"k": "a"}\n' * 300, headers=LINES).status_code == 200


def test_a_batch_larger_than_the_buffer_or_the_limit_is_refused(client: httpx.Client) -> None:
    many = client.post("/streams/posted", content='{"k": ""}\n' * 1001, headers=LINES)
    assert (many.status_code, "does not fit BUFFER" in many.json()["error"]) == (413, True)
    long = client.post("/streams/posted", content="x" * 20_001, headers=LINES)
    assert (long.status_code, long.json()["error"]) == (413, "a batch has at most 20,000 bytes: send smaller batches")

    def pieces() -> Iterator[bytes]:
        for _ in range(30):
            yield b"x" * 1000

    assert client.post("/streams/posted", content=pieces(), headers=LINES).status_code == 413


@pytest.mark.parametrize(
    ("path", "headers", "status", "message"),
    [
        ("/streams/nowhere", LINES, 404, "no stream 'nowhere'; streams FROM http (): posted"),
        ("/streams/cars", LINES, 404, "stream 'cars' comes FROM synthetic: only a stream FROM http () takes tuples here"),
        ("/streams/posted", {"Content-Type": "text/html"}, 415, "content type 'text/html' is not known"),
        ("/streams/posted", {**LINES, "Content-Encoding": "gzip"}, 415, "a compressed body is not taken"),
        ("/streams/posted", {**LINES, "Idempotency-Key": "x" * 300}, 400, "an idempotency key has 1 to 200"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_is_refused(
    client: httpx.Client, path: str, headers: dict[str, str], status: int, message: str
) -> None:
    answer = client.post(path, content='{"k": "a"}', headers=headers)
    assert answer.status_code == status
    assert answer.json()["error"].startswith(message)


def test_a_run_that_ends_asks_to_try_again(client: httpx.Client, run: StandIn) -> None:
    assert run.ingest is not None
    run.ingest.close()
    answer = client.post("/streams/posted", content='{"k": "a"}', headers=LINES)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
