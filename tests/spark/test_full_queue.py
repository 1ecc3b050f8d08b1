"""A queue of pushed tuples that is full takes new ones once its tuples are processed and their epoch is committed."""

from __future__ import annotations

import functools
import time
from pathlib import Path

import pytest

from kigen.connectors.pushed.errors import IngestFull
from kigen.connectors.pushed.ingest_queue import IngestQueue
from kigen.engine import Engine, Run

APP = """CREATE STREAM posted (n BIGINT, text STRING) FROM http ();
CREATE QUERY seen AS ISTREAM(SELECT n FROM posted [ROWS 3]);
CREATE QUERY total AS SELECT COUNT(*) AS n FROM posted [UNBOUNDED];
"""
ROWS = [{"n": n, "text": "x" * 1_000} for n in range(100)]


def pushed(run: Run) -> bool:
    try:
        run.push("posted", ROWS)
    except IngestFull:
        return False
    return True


@pytest.mark.timeout(300)
def test_a_full_queue_takes_tuples_again_though_no_others_come(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kigen.engine.ingest.IngestQueue", functools.partial(IngestQueue, max_bytes=1 << 20))
    options = {"output": tmp_path / "out", "checkpoint": tmp_path / "ck", "keep_results": False, "epoch_s": 0.5}
    run = engine.start(text=APP, **options)
    try:
        for _ in range(3):
            until = time.monotonic() + 30
            while pushed(run):
                assert time.monotonic() < until, "the queue never fills"
            while not pushed(run):
                assert run.active
                assert time.monotonic() < until, "the queue stays full"
                time.sleep(0.2)
    finally:
        run.stop()
    run = engine.start(text=APP, **options)
    try:
        until = time.monotonic() + 30
        while not pushed(run):
            assert time.monotonic() < until, "the queue is full after a restart"
            time.sleep(0.2)
    finally:
        run.stop()
