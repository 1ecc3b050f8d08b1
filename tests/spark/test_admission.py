"""Tests admission without Spark, on sources that are lists."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from kigen.connectors import Position, Range, Rows, Source
from kigen.spark.admission.offsets import Offset, OffsetFormatError, initial_offset, log_budget, next_offset


class Listed(Source):
    """A log whose tuples are its timestamps."""

    def __init__(self, name: str, times: list[int]) -> None:
        self.name, self.times = name, times

    def initial(self) -> Position:
        return {"i": 0}

    def advance(self, position: Position, max_rows: int) -> Range:
        start = position["i"]
        end = min(start + max_rows, len(self.times))
        last = self.times[end - 1] if end > start else None
        return Range(self.name, position, {"i": end}, end - start, last, ended=end == len(self.times))

    def read(self, piece: Range) -> Rows:
        return Rows(pa.table({"_ts": self.times[piece.start["i"] : piece.end["i"]]}))

    def fraction(self, position: Position) -> float | None:
        return position["i"] / len(self.times)


def drain(sources: dict[str, Source], batch_rows: int) -> list[list[Range]]:
    offset = initial_offset(sources, (), 0)
    batches = []
    while (after := next_offset(offset, sources, batch_rows, 10**15)) != offset:
        after = Offset.from_json(json.loads(json.dumps(after.to_json())))  # as Spark keeps it
        batches.append([Range.from_json(piece) for piece in after.ranges])
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


def test_closing_ends_every_log_where_it_is() -> None:
    sources: dict[str, Source] = {"log": Listed("log", [1, 2, 3])}
    start = initial_offset(sources, (), 0)
    end = next_offset(start, sources, 50, 15, closing=True)
    assert [(p["stream"], p["rows"], p["ended"]) for p in end.ranges] == [("log", 0, True)]
    assert next_offset(end, sources, 50, 16, closing=True) == end


def test_an_offset_of_another_format_is_refused() -> None:
    start = initial_offset({}, (), 0)
    with pytest.raises(OffsetFormatError, match="format 3 required, found 7"):
        Offset.from_json({**start.to_json(), "v": 7})


def after_batch(ranges: list[dict[str, Any]], admitted_us: int) -> Offset:
    return replace(initial_offset({}, (), 0), ranges=ranges, admitted_us=admitted_us)


def test_batches_of_logs_grow_while_quick_and_shrink_when_slow() -> None:
    def after(rows: int, took_us: int, largest: int = 2_000_000) -> int:
        start = after_batch([{"rows": rows}], 5_000_000)
        return log_budget(start, 500_000, largest, 5_000_000 + took_us)

    assert after(500_000, 300_000) == 1_000_000
    assert after(2_000_000, 300_000) == 2_000_000
    assert after(1_000_000, 2_000_000) == 1_000_000
    assert after(1_000_000, 9_000_000) == 500_000
    assert after(200_000, 9_000_000) == 125_000
    assert after(200_000, 300_000, largest=500_000) == 500_000  # a size of one's own stays
    assert log_budget(after_batch([{"rows": 500_000}], 0), 500_000, 2_000_000, 600_000, 1_000_000) == 250_000, (
        "a deadline of 1 s"
    )
    assert log_budget(after_batch([], 0), 500_000, 2_000_000, 1) == 500_000
