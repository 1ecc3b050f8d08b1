"""Admission alone, on sources that are lists: no Spark."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from kigen.connectors import Position, Range, Rows, Source
from kigen.spark.admission import Clock, OffsetFormatError, initial_offset, log_budget, next_offset, ranges_between

NOW = Clock(now_us=10**15)


class Listed(Source):
    """A log whose tuples are its timestamps; live, a tuple is there from its timestamp on."""

    def __init__(self, name: str, times: list[int], live: bool = False) -> None:
        self.name, self.times, self.live = name, times, live

    def initial(self) -> Position:
        return {"i": 0}

    def advance(self, position: Position, max_rows: int, now_us: int | None = None) -> Range:
        start = position["i"]
        there = len(self.times) if now_us is None else sum(t <= now_us for t in self.times)
        end = min(start + max_rows, there)
        last = self.times[end - 1] if end > start else None
        progress = now_us if self.live else None
        return Range(self.name, position, {"i": end}, end - start, last, progress, ended=end == len(self.times))

    def read(self, piece: Range) -> Rows:
        return Rows(pa.table({"_ts": self.times[piece.start["i"] : piece.end["i"]]}))

    def fraction(self, position: Position) -> float | None:
        return position["i"] / len(self.times)


def drain(sources: dict[str, Source], batch_rows: int) -> list[list[Range]]:
    offset: dict[str, Any] = initial_offset(sources, 0)
    batches = []
    while (after := next_offset(sources, offset, batch_rows, NOW)) != offset:
        after = json.loads(json.dumps(after))  # as Spark keeps it
        batches.append(ranges_between(offset, after))
        offset = after
    return batches


def test_every_tuple_is_admitted_once_and_streams_stay_in_step() -> None:
    sources: dict[str, Source] = {"a": Listed("a", list(range(0, 1000, 1))), "b": Listed("b", list(range(0, 1000, 10)))}
    reached = {"a": 0, "b": 0}
    for batch in drain(sources, 80):
        assert sum(piece.rows or 0 for piece in batch) <= 80
        for piece in batch:
            assert piece.start["i"] == reached[piece.stream]
            reached[piece.stream] = piece.end["i"]
        if reached["b"] < 100:  # b is sparse: at most a slice of a batch (10 tuples, 100 time units) ahead
            assert reached["b"] * 10 - reached["a"] <= 100
    assert reached == {"a": 1000, "b": 100}


def test_a_stream_without_tuples_still_ends() -> None:
    batches = drain({"a": Listed("a", []), "b": Listed("b", [])}, 10)
    assert [[(p.stream, p.ended) for p in batch] for batch in batches] == [[("a", True), ("b", True)]]


def test_live_streams_give_what_has_arrived_and_idle_ones_their_progress() -> None:
    sources: dict[str, Source] = {"a": Listed("a", [10, 20], live=True), "b": Listed("b", [100], live=True)}
    start = initial_offset(sources, 0)
    first = next_offset(sources, start, 50, Clock(15))
    assert [(p.stream, p.rows, p.progress_us) for p in ranges_between(start, first)] == [("a", 1, 15), ("b", 0, 15)]
    assert next_offset(sources, first, 50, Clock(16)) == first, "nothing arrived, nothing due"


def test_a_known_death_makes_a_batch_once_its_time_has_passed() -> None:
    sources: dict[str, Source] = {"a": Listed("a", [10, 1000], live=True)}
    first = next_offset(sources, initial_offset(sources, 0), 50, Clock(15))
    assert next_offset(sources, first, 50, Clock(29, next_event_us=30)) == first
    assert next_offset(sources, first, 50, Clock(33, next_event_us=30, lateness_us={"a": 5})) == first
    tick = next_offset(sources, first, 50, Clock(31, next_event_us=30))
    assert [(p.rows, p.progress_us) for p in ranges_between(first, tick)] == [(0, 31)]
    assert next_offset(sources, tick, 50, Clock(40, next_event_us=30)) == tick


def test_closing_ends_every_stream_after_what_has_arrived() -> None:
    sources: dict[str, Source] = {"a": Listed("a", [10, 1000], live=True), "log": Listed("log", [1, 2, 3])}
    start = initial_offset(sources, 0)
    end = next_offset(sources, start, 50, Clock(15, closing=True))
    assert [(p.stream, p.rows, p.ended) for p in ranges_between(start, end)] == [("a", 1, False), ("a", 0, True), ("log", 0, True)]
    assert next_offset(sources, end, 50, Clock(16, closing=True)) == end


def test_an_offset_of_another_format_is_refused() -> None:
    start = initial_offset({}, 0)
    with pytest.raises(OffsetFormatError, match="format 1 required, found 7"):
        ranges_between(start, {**start, "v": 7})


def test_batches_of_logs_grow_while_quick_and_shrink_when_slow() -> None:
    def after(rows: int, took_us: int, largest: int = 2_000_000) -> int:
        start = {"ranges": [{"rows": rows, "progress_us": None}], "admitted_us": 5_000_000}
        return log_budget(start, 500_000, largest, 5_000_000 + took_us)

    assert after(500_000, 300_000) == 1_000_000
    assert after(2_000_000, 300_000) == 2_000_000
    assert after(1_000_000, 2_000_000) == 1_000_000
    assert after(1_000_000, 9_000_000) == 500_000
    assert after(200_000, 9_000_000) == 125_000
    assert after(200_000, 300_000, largest=500_000) == 500_000  # a size of one's own stays
    assert log_budget({"ranges": [], "admitted_us": 0}, 500_000, 2_000_000, 1) == 500_000
