"""Token, one-time links and sessions; health, metrics and the page behind them."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import httpx
import pytest
from standin import StandIn

from kigen.web.access import Access
from kigen.web.server import WebServer

ADDRESSES = ["/", "/metrics", "/health/live", "/health/ready", "/nowhere"]


@pytest.fixture
def server(run: StandIn, tmp_path: Path) -> Iterator[WebServer]:
    with WebServer(run, tmp_path / "serve", "127.0.0.1:0") as made:
        yield made


@pytest.fixture
def access(server: WebServer) -> Access:
    return server.access


@pytest.fixture
def stranger(server: WebServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url) as made:
        yield made


def bearer(access: Access) -> dict[str, str]:
    return {"Authorization": f"Bearer {access.token_file.read_text().strip()}"}


def test_the_token_is_private_and_stays_over_restarts(access: Access) -> None:
    assert stat.S_IMODE(access.token_file.stat().st_mode) == 0o600
    before = access.token_file.read_text()
    assert Access(access.token_file.parent).token_file.read_text() == before
    assert len(before.strip()) == 64


def test_nothing_is_answered_without_the_token(stranger: httpx.Client) -> None:
    wrong = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}, {"Cookie": "kigen_session=x"}]
    for header, path in product(wrong, ADDRESSES):
        answer = stranger.get(path, headers=header)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert stranger.post("/streams/posted", content="{}", headers=header).status_code == 401


def test_a_link_opens_the_page_once_and_a_session_may_only_read(
    stranger: httpx.Client, access: Access, run: StandIn
) -> None:
    link = access.new_link()
    answer = stranger.get(f"/?{link}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "httponly" in answer.headers["set-cookie"].lower()
    assert "samesite=strict" in answer.headers["set-cookie"].lower()
    page = stranger.get("/")
    assert page.status_code == 200
    assert "<td>hot</td>" in page.text
    assert "src=" not in page.text
    assert stranger.post("/streams/posted", content="{}").status_code == 401
    stranger.cookies.clear()
    assert stranger.get(f"/?{link}").status_code == 401
    assert stranger.get("/?open=").status_code == 401


def test_a_new_link_needs_the_token(stranger: httpx.Client, access: Access) -> None:
    assert stranger.post("/links").status_code == 401
    made = stranger.post("/links", headers=bearer(access)).json()["path"]
    assert stranger.get(made).status_code == 303


def test_health_says_whether_the_streams_flow(stranger: httpx.Client, access: Access, run: StandIn) -> None:
    assert stranger.get("/health/live", headers=bearer(access)).json() == {"live": True}
    assert stranger.get("/health/ready", headers=bearer(access)).status_code == 200
    run.flows = False
    assert stranger.get("/health/ready", headers=bearer(access)).status_code == 503


def test_metrics_are_prometheus_text(stranger: httpx.Client, access: Access) -> None:
    answer = stranger.get("/metrics", headers=bearer(access))
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.text.splitlines()
    for line in (
        "kigen_flowing 1",
        "kigen_batches_total 3",
        'kigen_query_in_total{query="hot"} 7',
        'kigen_query_missed_total{query="hot"} 1',
        'kigen_query_latency_seconds{query="hot",quantile="0.95"} 0.02',
        'kigen_query_waiting_tuples{query="hot"} 2',
        'kigen_query_deadline_seconds{query="hot"} 2.0',
        'kigen_stream_taken_total{stream="posted"} 0',
    ):
        assert line in lines
    assert not any('quantile="0.99"' in line for line in lines), "a quantile that is not known is left out"
    named = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(named) == len(set(named))


def test_errors_are_json(stranger: httpx.Client, access: Access) -> None:
    assert stranger.get("/nowhere", headers=bearer(access)).json() == {"error": "Not Found"}
    assert stranger.get("/streams/posted", headers=bearer(access)).status_code == 405
