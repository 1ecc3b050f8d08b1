"""Tests time on logs of several partitions: the watermark, lateness per partition, idle partitions, and order."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from kigen.lifetimes import StreamInput, codec
from kigen.lifetimes.blocks import BEFORE_TIME
from kigen.lifetimes.intake import Intake
from kigen.lifetimes.partitions import Partitions
from kigen.plan.logical import Connector, SourceStream
from kigen.plan.types import Column, Type

Row = tuple[str, int, int]  # partition, timestamp, value


def stream(lateness_us: int = 0, timestamp: int | None = 1) -> SourceStream:
    columns = (Column("v", Type.BIGINT), Column("ts", Type.TIMESTAMP))
    return SourceStream("s", columns, Connector("kafka"), timestamp, lateness_us)


def given(
    rows: list[Row],
    names: tuple[str, ...],
    idle: tuple[str, ...] = (),
    silence: tuple[int, int] | None = None,
    ended: bool = False,
) -> StreamInput:
    stamps = [ts for _, ts, _ in rows]
    table = pa.table(
        {
            "c0": pa.array([v for _, _, v in rows], pa.int64()),
            "c1": pa.array(stamps, pa.timestamp("us")),
            "_ts": pa.array(stamps, pa.int64()),
            "_partition": pa.array([p for p, _, _ in rows], pa.string()).dictionary_encode(),
        }
    )
    return StreamInput([table], ended=ended, partitions=Partitions(names, frozenset(idle), silence))


def released(intake: Intake, now: int | None = None) -> list[tuple[int, int]]:
    block = intake.release(intake.progress if now is None else now)
    assert block.columns.num_columns == 2, "the column of partitions stays inside"
    return list(zip(block.at.tolist(), block.columns.column(0).to_pylist(), strict=True))


def test_the_watermark_is_that_of_the_partition_furthest_behind() -> None:
    intake = Intake(stream(lateness_us=2))
    both = ("t/0", "t/1")
    assert intake.take_in(given([("t/0", 100, 1)], both)) == (1, 0)
    assert intake.progress == BEFORE_TIME, "t/1 has no row yet"
    assert intake.take_in(given([("t/1", 50, 2)], both)) == (1, 0)
    assert intake.progress == 48
    assert intake.take_in(given([("t/1", 49, 3), ("t/1", 120, 4), ("t/1", 117, 5)], both)) == (2, 1), "late in t/1"
    assert intake.progress == 98
    assert released(intake) == [(49, 3), (50, 2)]


def test_an_idle_partition_holds_nobody_up_and_may_be_late_afterwards() -> None:
    intake = Intake(stream())
    both = ("t/0", "t/1")
    intake.take_in(given([("t/0", 100, 1), ("t/1", 10, 2)], both))
    assert intake.progress == 10
    intake.take_in(given([], both, idle=("t/1",)))
    assert intake.progress == 100
    assert released(intake) == [(10, 2)]
    assert intake.take_in(given([("t/1", 99, 3), ("t/1", 100, 4), ("t/0", 130, 5)], both)) == (2, 1)
    assert intake.progress == 100
    assert intake.take_in(given([], ("t/0", "t/1", "t/2"))) == (0, 0)
    intake.take_in(given([("t/1", 140, 6)], ("t/0", "t/1", "t/2")))
    assert intake.progress == 100, "a new partition is waited for"


def test_if_all_are_idle_time_stops_or_goes_on_by_what_passes() -> None:
    intake = Intake(stream())
    both = ("t/0", "t/1")
    intake.take_in(given([("t/0", 100, 1), ("t/1", 50, 2)], both))
    intake.take_in(given([], both, idle=both))
    assert intake.progress == 50
    intake.take_in(given([], both, idle=both, silence=(7, 30)))
    assert intake.progress == 80
    intake.take_in(given([], both, idle=both, silence=(7, 60)))
    assert intake.progress == 110
    intake.take_in(given([], both, idle=both, silence=(9, 5)))
    assert intake.progress == 115, "after a restart another silence begins"
    intake.take_in(given([("t/0", 116, 1)], both, idle=("t/1",)))
    assert intake.progress == 116


def test_a_partition_without_rows_is_left_out_when_all_are_idle() -> None:
    intake = Intake(stream())
    both = ("t/0", "t/1")
    intake.take_in(given([("t/0", 100, 1)], both, idle=both, silence=(1, 10)))
    assert intake.progress == 110
    empty = Intake(stream())
    empty.take_in(given([], both, idle=both, silence=(1, 10)))
    assert empty.progress == BEFORE_TIME


def test_equal_timestamps_are_ordered_by_partition_and_log() -> None:
    intake = Intake(stream())
    names = ("b/2", "b/10", "a/3")
    rows = [("b/10", 5, 1), ("b/2", 5, 2), ("b/2", 5, 3), ("a/3", 5, 4), ("b/2", 4, 5)]
    intake.take_in(given(rows[:2], names))
    intake.take_in(given(rows[2:4], names))
    assert released(intake, 6) == [(5, 4), (5, 2), (5, 3), (5, 1)]


def test_without_a_timestamp_column_nothing_is_late() -> None:
    intake = Intake(stream(lateness_us=3, timestamp=None))
    assert intake.take_in(given([("t/0", 100, 1), ("t/0", 96, 2), ("t/0", 98, 3)], ("t/0",))) == (3, 0)
    assert released(intake, 200) == [(97, 2), (98, 3), (100, 1)]
    assert intake.take_in(given([("t/0", 101, 4)], ("t/0",))) == (1, 0)
    assert released(intake, 201) == [(200, 4)]


@pytest.mark.parametrize("seed", range(30))
def test_the_same_rows_however_the_log_is_cut(seed: int) -> None:
    """Any interleaving of the partitions, cut anywhere, with a snapshot in between, gives the same tuples in order."""
    rng = random.Random(seed)
    lateness = rng.choice([0, 3, 10])
    names = tuple(f"t/{p}" for p in range(rng.randint(1, 4)))
    logs = {name: _log(rng, name) for name in names}
    expected = _expected(logs, lateness)
    for _ in range(4):
        intake, place, out, late = Intake(stream(lateness)), dict.fromkeys(names, 0), [], 0
        while any(place[name] < len(logs[name]) for name in names):
            rows: list[Row] = []
            for name in rng.sample(names, len(names)):
                count = rng.randint(0, 6)
                rows += logs[name][place[name] : place[name] + count]
                place[name] += count
            done = tuple(name for name in names if place[name] >= len(logs[name]))
            late += intake.take_in(given(rows, names, idle=done))[1]
            out += released(intake)
            if rng.random() < 0.3:
                again = Intake(stream(lateness))
                again.load(codec.decode(codec.encode(intake.state())))
                intake = again
        intake.take_in(given([], names, idle=names, ended=True))
        out += released(intake)
        assert (out, late) == expected


def _log(rng: random.Random, name: str) -> list[Row]:
    at, rows = 0, []
    for _ in range(rng.randint(1, 25)):
        at += rng.choice([0, 0, 1, 2, 5])
        rows.append((name, max(0, at - rng.choice([0, 0, 0, 2, 8])), rng.randrange(1000)))
    return rows


def _expected(logs: dict[str, list[Row]], lateness: int) -> tuple[list[tuple[int, int]], int]:
    kept: list[tuple[int, int, int, int]] = []
    late = 0
    for rank, rows in enumerate(logs.values()):
        newest = -(10**9)
        for place, (_, ts, value) in enumerate(rows):
            if ts < newest - lateness:
                late += 1
            else:
                kept.append((ts, rank, place, value))
            newest = max(newest, ts)
    return [(ts, value) for ts, _, _, value in sorted(kept)], late
