"""Tasks of equal work are dealt so that every deadline class is in every lane."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kigen.spark.admission.lane import deal


def test_every_lane_gets_every_class() -> None:
    deadlines_us = {f"t{i}": (100_000, 250_000, None, 1_000_000)[i % 4] for i in range(8)}
    tasks = [
        SimpleNamespace(name=name, streams=(f"s {name}",), queries=(), deadline_us=deadline_us)
        for name, deadline_us in deadlines_us.items()
    ]
    spec: Any = SimpleNamespace(app=SimpleNamespace(streams=()), tasks=tasks)
    starts = deal(spec, 2, {})
    assert sorted(name for start in starts for name in start["tasks"]) == sorted(deadlines_us)
    for start in starts:
        assert {deadlines_us[name] for name in start["tasks"]} == {100_000, 250_000, None, 1_000_000}
