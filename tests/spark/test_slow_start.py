"""A busy machine where Spark's Python worker is too slow to start: a query that has done nothing is started again."""

from __future__ import annotations

from typing import Any

import pytest

from kigen.spark import pipeline

SLOW = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back."


class Query:
    def __init__(self, error: str | None, batches: int = 0) -> None:
        self.isActive, self._error, self.recentProgress = error is None, error, [object()] * batches

    def exception(self) -> str | None:
        return self._error


def made(queries: list[Query], monkeypatch: pytest.MonkeyPatch) -> pipeline.Pipeline:
    left = list(queries)
    monkeypatch.setattr(pipeline, "_start", lambda *_: left.pop(0))
    monkeypatch.setattr(pipeline, "own_settings", lambda spark: spark)
    monkeypatch.setattr(pipeline, "encode_encoders", lambda _: "")
    monkeypatch.setattr(pipeline, "in_lanes", lambda spark, spec: spec)
    nothing: Any = type("Sink", (), {"encoders": lambda self: {}, "align": lambda self: None, "lanes": 0})()
    return pipeline.Pipeline(nothing, nothing, nothing)


def test_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    running = made([Query(SLOW), Query(SLOW), Query(None)], monkeypatch)
    assert [running.active for _ in range(4)] == [True] * 4
    assert running.failure() is None


def test_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    running = made([Query(SLOW)] * 4, monkeypatch)
    assert [running.active for _ in range(4)] == [True, True, True, False]
    assert running.failure() == SLOW


@pytest.mark.parametrize("query", [Query("a wrong input"), Query(SLOW, batches=3)], ids=["another error", "later"])
def test_not_for_other_reasons(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not made([query], monkeypatch).active
