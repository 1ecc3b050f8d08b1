"""A lane without work waits for long, and a push or a known death ends the wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kigen.engine.ingest import Ingest
from kigen.plan import bind
from kigen.spark.admission.lane import Lane, RoundDone, deal
from kigen.spark.admission.offsets import initial_offset
from kigen.spark.spec import RunSpec

APP = bind(
    "CREATE STREAM s (n BIGINT) FROM http ();CREATE QUERY q DEADLINE 1 SECONDS AS SELECT n FROM s [RANGE 1 SECONDS];"
)
LONG_S = 0.05  # a lane that looks at its sources all the time waits for less


def now_us() -> int:
    return time.time_ns() // 1000


@pytest.fixture
def ingest(tmp_path: Path) -> Iterator[Ingest]:
    made = Ingest(APP, tmp_path / "ck", tmp_path, syncs=False, drain=False)
    yield made
    made.close()


@pytest.fixture
def lane(ingest: Ingest, tmp_path: Path) -> Iterator[Lane]:
    spec = RunSpec(APP, "idle", str(tmp_path / "ck"), str(tmp_path), False, lanes=1, ingest=ingest.access, syncs=False)
    offset = initial_offset(spec.sources(0), spec.tasks, 0)
    made = Lane(spec, 0, deal(spec, 1, offset.logs)[0], offset.queues, 0)
    made.begin_epoch(1)
    yield made
    made.close()


def test_a_push_ends_the_wait(lane: Lane, ingest: Ingest) -> None:
    assert lane.next(RoundDone(), now_us(), False) is None
    assert lane.wait_s(now_us()) > LONG_S
    lane.news.clear()
    ingest.push_rows("s", [{"n": 1}])
    assert lane.news.wait(60)
    found = lane.next(RoundDone(), now_us(), False)
    assert found is not None
    assert [piece["rows"] for piece in found.entry.taken["task0"]["ranges"]] == [1]


def test_a_lane_sleeps_until_a_death_that_it_knows(lane: Lane) -> None:
    assert lane.next(RoundDone(), now_us(), False) is None
    death_us = now_us() + 40_000
    assert lane.next(RoundDone(events_us={"task0": death_us}), now_us(), False) is None
    at_us = now_us()
    assert lane.wait_s(at_us) == pytest.approx((death_us - at_us) / 1e6), "its own clock says when"
    assert lane.next(RoundDone(), death_us - 1, False) is None
    found = lane.next(RoundDone(), death_us, False)
    assert found is not None
    assert [piece["progress_us"] for piece in found.entry.taken["task0"]["ranges"]] == [death_us]
