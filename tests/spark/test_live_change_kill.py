"""A run that takes batches over HTTP and is killed in the middle of a change: the app is the one before or after it, and
no batch and no line is lost or doubled."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from pathlib import Path

import httpx
import pytest
from test_http_kill import _ROWS, Sender, Served, seen
from test_live_changes import numbers

_KILLS = 20 if os.environ.get("KIGEN_SOAK") else 2
ADDED = "CREATE QUERY more AS ISTREAM(SELECT n FROM posted [NOW]);"


def ask(served: Served, action: str, body: dict[str, object]) -> None:
    with contextlib.suppress(httpx.HTTPError):
        headers = {"Authorization": f"Bearer {served.token}"}
        httpx.post(f"{served.url}/app/{action}", json=body, headers=headers, timeout=60)


def queries(served: Served) -> list[str]:
    answer = httpx.get(f"{served.url}/queries", headers={"Authorization": f"Bearer {served.token}"}, timeout=200)
    return [one["name"] for one in answer.json()["queries"]]


@pytest.mark.timeout(1200 if _KILLS == 2 else 0)
def test_a_change_is_made_or_not(tmp_path: Path) -> None:
    rng = random.Random(19)
    served, made = Served(tmp_path), 0
    pieces: list[list[int]] = []
    try:
        served.start()
        sender = Sender(served)
        sender.start()
        has = False
        for kill in range(_KILLS):
            goal, until = len(seen(tmp_path)) + 50, time.monotonic() + 200
            while len(seen(tmp_path)) < goal:
                assert time.monotonic() < until, served.errors.read_text()
                time.sleep(0.02)
            asked = ("drop", {"queries": ["more"]}) if has else ("add", {"text": ADDED})
            changing = threading.Thread(target=ask, args=(served, *asked))
            changing.start()
            time.sleep((0.5, 1.5, 3.0)[kill % 3] * rng.uniform(0.7, 1.3))
            served.kill()
            changing.join()
            served.start()
            now = "more" in queries(served)
            made += now != has
            if has and not now:
                pieces.append(numbers(tmp_path / "out" / "more.csv"))
            has = now
        before, until = sender.acknowledged, time.monotonic() + 200
        while sender.acknowledged < before + 5:  # the last one, too, takes batches
            assert time.monotonic() < until, served.errors.read_text()
            time.sleep(0.02)
        sender.done.set()
        sender.join()
        sent, until = sender.acknowledged * _ROWS, time.monotonic() + 200
        while len(seen(tmp_path)) < sent:
            assert time.monotonic() < until, f"{len(seen(tmp_path))} of {sent}: {served.errors.read_text()}"
            time.sleep(0.1)
        assert served.stop() == 0, served.errors.read_text()
        if has:
            pieces.append(numbers(tmp_path / "out" / "more.csv"))
    finally:
        served.kill()
    found = seen(tmp_path)
    assert sorted(found) == list(range(len(found))), "every tuple once"
    assert sent <= len(found) <= sent + _ROWS, "at most one batch more, whose answer was lost"
    for piece in pieces:
        assert not piece or sorted(piece) == list(range(min(piece), min(piece) + len(piece))), "no gap, nothing twice"
    print(f"{made} of {_KILLS} changes were made before the kill")
