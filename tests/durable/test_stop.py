"""Tests that a stop never hangs: a batch that waits for space in a queue blocks neither `status` nor the end."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from durable.sparkless import frame

from kigen.lifetimes.exchange.sent import queue_schema
from kigen.plan.logical import App, Query, Scan, Window, WindowKind
from kigen.plan.types import Column, Type
from kigen.queue import Queue, QueueFull, QueueSettings
from kigen.spark.links.link_sink import LinkSink
from kigen.spark.sink.batch_sink import BatchSink
from kigen.spark.spec import RunSpec

SCHEMA = (Column("a", Type.BIGINT),)
QUERY = Query("q", Window(Scan("s", SCHEMA), WindowKind.ROWS, 3))


@pytest.mark.timeout(300)
def test_a_full_queue_holds_up_neither_status_nor_stop(tmp_path: Path) -> None:
    queue = Queue(
        "q", queue_schema(SCHEMA, False), QueueSettings(folder=tmp_path / "queues", durable=True, max_tuples=4)
    )
    sink = BatchSink(
        RunSpec(App((), (QUERY,)), "run", str(tmp_path / "ck"), str(tmp_path)),
        {"q": [("link", LinkSink(QUERY, queue))]},
    )
    sink.open()
    sink(frame(0, 0, 4), 0)

    def wait_for_room() -> None:
        with suppress(QueueFull):
            sink(frame(1, 4, 8), 1)

    batch = threading.Thread(target=wait_for_room, daemon=True)
    batch.start()
    time.sleep(0.3)
    assert batch.is_alive(), "it waits for a reader"
    assert sink.lock.acquire(timeout=60), "`status` reads the counts under this lock"
    sink.lock.release()
    sink.close()  # a hang is found by the time limit of the test
    batch.join(60)
    assert not batch.is_alive()
    assert sink.record.batch == 0
    assert sink.error is None, "a stop is no failure"
    queue.close()


@pytest.mark.timeout(300)
def test_room_that_comes_late_is_taken(tmp_path: Path) -> None:
    queue = Queue(
        "q", queue_schema(SCHEMA, False), QueueSettings(folder=tmp_path / "queues", durable=True, max_tuples=4)
    )
    queue.open_reader("r")
    queue.require(["r"])
    sink = BatchSink(
        RunSpec(App((), (QUERY,)), "run", str(tmp_path / "ck"), str(tmp_path)),
        {"q": [("link", LinkSink(QUERY, queue))]},
    )
    sink.open()
    sink(frame(0, 0, 4), 0)
    reader = threading.Timer(1.2, lambda: queue.ack("r", 4))
    reader.start()
    sink(frame(1, 4, 8), 1)
    assert sink.record.batch == 1
    sink.close()
    queue.close()
