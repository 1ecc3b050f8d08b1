"""A pushed stream in admission and in workers: arrivals, watermarks and rows by offset, over the queue's server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from kigen.connectors.source_base import Range
from kigen.engine.errors import ArgumentError
from kigen.engine.ingest import Ingest
from kigen.lifetimes.blocks import FOREVER
from kigen.plan import bind
from kigen.plan.logical import App
from kigen.spark.links.ingest_source import IngestSource

LINES = "application/x-ndjson"


def app_of(clauses: str = "") -> App:
    declared = f"CREATE STREAM s (n BIGINT, ts TIMESTAMP) {clauses} FROM http ();"
    return bind(declared + "CREATE QUERY q AS SELECT n FROM s [NOW];")


@pytest.fixture
def ingest(tmp_path: Path) -> Iterator[Ingest]:
    made = Ingest(app_of(), tmp_path / "ck", tmp_path / "scratch", syncs=False, drain=False)
    yield made
    made.close()


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not there():
        assert time.monotonic() < end
        time.sleep(0.005)


def now_us() -> int:
    return time.time_ns() // 1000


def piece(first: int, end: int) -> Range:
    return Range("s", {"index": first}, {"index": end})


def test_workers_read_any_range_and_the_arrival_is_the_timestamp(ingest: Ingest) -> None:
    begun = now_us()
    ingest.push_rows("s", [{"n": i} for i in range(5)])
    ingest.push_rows("s", [{"n": i} for i in range(5, 8)])
    worker = IngestSource(ingest.queues["s"].stream, ingest.access)
    rows = worker.read(piece(3, 7))
    assert rows.table.column_names == ["c0", "c1", "_ts"]
    assert rows.table["c0"].to_pylist() == [3, 4, 5, 6]
    assert rows.arrivals_us is not None
    assert rows.table["_ts"].to_pylist() == rows.arrivals_us.tolist() == sorted(rows.arrivals_us.tolist())
    assert begun <= rows.arrivals_us[0] <= now_us()
    assert worker.arrivals_us(3, 7).tolist() == rows.arrivals_us.tolist()
    assert worker.read(piece(4, 4)).table.num_rows == 0


def test_an_idle_stream_is_complete_up_to_now(ingest: Ingest) -> None:
    source = IngestSource(ingest.queues["s"].stream, ingest.access)
    asked = now_us()
    assert source.arrived_by(asked) == 0
    assert source.complete_us(asked) == asked


def test_a_source_calls_when_something_has_come(ingest: Ingest) -> None:
    source, called = IngestSource(ingest.queues["s"].stream, ingest.access), threading.Event()
    assert source.call_on_news(called.set)
    for count in (1, 2):
        known = source.arrived_by(now_us())
        called.clear()
        if source.arrived_by(now_us()) == known:
            ingest.push_rows("s", [{"n": count}])
            assert called.wait(60)
        assert source.arrived_by(now_us()) == count
    assert source.completes_at_us(5) == 5, "the clock decides when nothing comes"


def test_a_watermark_never_passes_a_tuple_that_comes_later(ingest: Ingest) -> None:
    """A sender pushes as fast as it can while the reader polls. Each tuple that appears after a claim must not lie
    before it."""
    source = IngestSource(ingest.queues["s"].stream, ingest.access)
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            ingest.push_rows("s", [{"n": 1}, {"n": 2}])

    sender = threading.Thread(target=send)
    sender.start()
    known, claimed, steps = 0, 0, 0
    try:
        begun, most = time.monotonic(), time.monotonic() + 120
        while time.monotonic() < begun + 2 or (steps <= 10 and time.monotonic() < most):
            asked = now_us()
            there = source.arrived_by(asked)
            if there > known:
                arrivals = source.arrivals_us(known, there)
                assert int(arrivals.min()) >= claimed
                assert bool(np.all(arrivals[1:] >= arrivals[:-1]))
                known, steps = there, steps + 1
            found = source.complete_us(asked)
            assert found is None or claimed <= found
            claimed = found or claimed
    finally:
        stop.set()
        sender.join()
    assert steps > 10
    until(lambda: source.arrived_by(now_us()) == ingest.queues["s"].status()["taken"])
    asked = now_us()
    source.arrived_by(asked)
    assert source.complete_us(asked) == asked, "all has arrived, so the clock decides again"


def test_with_timestamp_by_the_tuples_decide(tmp_path: Path) -> None:
    ingest = Ingest(app_of("TIMESTAMP BY ts"), tmp_path / "ck", tmp_path / "scratch", syncs=False, drain=False)
    ingest.push_rows("s", [{"n": 1, "ts": "2026-01-02T03:04:05Z"}])
    source = IngestSource(ingest.queues["s"].stream, ingest.access)
    until(lambda: source.arrived_by(now_us()) == 1)
    assert source.complete_us(now_us()) is None
    assert source.progress_before(0, 5) is None
    assert source.completes_at_us(5) == FOREVER, "no clock decides"
    assert source.read(piece(0, 1)).table["_ts"].to_pylist() == [1_767_323_045_000_000]
    ingest.close()


def test_what_was_polled_can_be_asked_again(ingest: Ingest) -> None:
    source = IngestSource(ingest.queues["s"].stream, ingest.access)
    for i in range(4):
        ingest.push_rows("s", [{"n": i}])
    until(lambda: source.arrived_by(now_us()) == 4)
    later = source.arrivals_us(2, 4)
    assert source.arrivals_us(0, 4)[2:].tolist() == later.tolist(), "forgotten arrivals are read from the queue"


def test_a_restart_begins_where_the_queue_was_trimmed(tmp_path: Path) -> None:
    first = Ingest(app_of(), tmp_path / "ck", tmp_path / "a", syncs=False, drain=False)
    first.push_rows("s", [{"n": i} for i in range(10)])
    first.push_rows("s", [{"n": i} for i in range(10, 12)])
    first.committed({"s": 10}, {"s": 11})
    first.close()
    again = Ingest(app_of(), tmp_path / "ck", tmp_path / "b", syncs=False, drain=False)
    again.resumed({"s": {"index": 11}, "other": {"file": "x"}})
    assert again.status()["s"]["waiting"] == 1
    source = IngestSource(again.queues["s"].stream, again.access)
    until(lambda: source.arrived_by(now_us()) == 12)
    assert source.read(piece(10, 12)).table["c0"].to_pylist() == [10, 11]
    again.close()


def test_a_drain_of_a_pushed_stream_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="never ends, so it cannot be drained"):
        Ingest(app_of(), tmp_path / "ck", tmp_path / "scratch", syncs=False, drain=True)


def test_an_unknown_stream_is_named(ingest: Ingest) -> None:
    with pytest.raises(ArgumentError, match="no pushed stream 'x': there are s"):
        ingest.push_rows("x", [])
