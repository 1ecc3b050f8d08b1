"""Tuples leave an intake in the order of time, in whatever order and pieces they come, also after a restore."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from kigen.lifetimes import StreamInput
from kigen.lifetimes.intake import Intake
from kigen.plan import bind

APP = """
CREATE STREAM s (v BIGINT, at TIMESTAMP) TIMESTAMP BY at LATENESS 1 SECONDS FROM csv (path = 's.csv');
CREATE QUERY q AS SELECT v FROM s [NOW];
"""


def given(rows: list[tuple[int, int]], *, narrow: bool) -> StreamInput:
    kind = pa.int32() if narrow else pa.int64()
    values, times = [v for v, _ in rows], [t for _, t in rows]
    at = pa.array(times, pa.timestamp("us"))
    return StreamInput([pa.table({"c0": pa.array(values, kind), "c1": at, "_ts": pa.array(times, pa.int64())})])


def fresh() -> Intake:
    return Intake(next(s for s in bind(APP).streams if s.name == "s"))


@pytest.mark.parametrize("seed", range(30))
def test_any_order_in_any_pieces_is_released_in_order(seed: int) -> None:
    rng = random.Random(seed)
    disorder = rng.choice([0, 0, 3, 40])
    rows = [(v, max(0, 2 * v + rng.randint(-disorder, disorder))) for v in range(200)]
    expected = sorted(rows, key=lambda row: row[1])  # stable: those of one instant stay in the order of the log
    intake, released, now = fresh(), list[tuple[int, int]](), 0
    while rows or intake.held:
        piece, rows = rows[: (size := rng.randint(1, 20))], rows[size:]
        if piece:
            assert intake.take_in(given(piece, narrow=rng.random() < 0.3)) == (len(piece), 0)
        if rng.random() < 0.2:
            state, intake = intake.state(), fresh()
            intake.load(state)
        if rng.random() < 0.6 or not rows:
            safe = min((t for _, t in rows), default=1_000)  # whoever comes later is not before this
            now = max(now, safe)
            block = intake.release(now)
            released += zip(block.columns.column(0).to_pylist(), block.at.tolist(), strict=True)
    assert released == expected


def test_a_restored_intake_orders_what_waited_out_of_order() -> None:
    before = fresh()
    before.take_in(given([(1, 9), (2, 4), (3, 7)], narrow=False))
    after = fresh()
    after.load(before.state())
    assert after.release(8).columns.column(0).to_pylist() == [2, 3]
    assert after.release(20).columns.column(0).to_pylist() == [1]
