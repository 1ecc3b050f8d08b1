"""The sink without Spark: it writes each batch once, whatever is replayed or cut short, and removes old snapshots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kigen.connectors import InputError, Sink, open_sink
from kigen.connectors.csv.sink import CsvSink
from kigen.plan.logical import App, Connector, Query, Scan, Window, WindowKind
from kigen.plan.types import Column, Type
from kigen.spark.operator import error_codec, result_rows
from kigen.spark.operator.result_rows import Spool
from kigen.spark.rounds.round import Round
from kigen.spark.rounds.round_log import RoundLog, path_of
from kigen.spark.session.start import RETAINED_BATCHES
from kigen.spark.sink.batch_sink import BatchSink
from kigen.spark.sink.round_server import DeliveredRound, EndedLane
from kigen.spark.spec import RunSpec

SCHEMA = (Column("a", Type.BIGINT),)
QUERY = Query("q", Window(Scan("s", SCHEMA), WindowKind.ROWS, 3))


class Frame:
    """The part of a DataFrame that the sink uses."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = rows

    def toArrow(self) -> pa.Table:  # noqa: N802
        columns = list(zip(*self._rows, strict=True))
        return pa.table(dict(zip(result_rows.COLUMNS, columns, strict=True)))


def batch(number: int, finished: bool = False, chunk: str | None = None) -> Any:
    payload, _ = Spool("").pack(pa.table({"c0": [number], "_from": [number], "_to": pa.array([None], pa.int64())}))
    note = {
        "admitted_us": 0,
        "counts": {"q": {"in": 1, "late": 0}},
        "finished": finished,
        "next_event_us": 5,
        "positions": {"s": {"i": number}},
        "skipped": {},
        "shed": {},
        "dropped": {},
        "kept": {},
        "done_us": 0,
        "arrivals": {"s": [[0, 1]]},
    }
    rows = [("task0", number, "q", "lines", payload, None), ("task0", number, None, "step", None, json.dumps(note))]
    return Frame([*rows, ("task0", number, None, "chunk", None, chunk)])


def sink_on(directory: Path) -> tuple[BatchSink, Sink]:
    output = open_sink(Connector("csv", (("path", "q.csv"),)), SCHEMA, False, str(directory), "q")
    spec = RunSpec(App((), (QUERY,)), "run", str(directory / "ck"), str(directory))
    sink = BatchSink(spec, {"q": [("q output", output)]})
    sink.open()
    return sink, output


def written(directory: Path) -> list[int]:
    return [int(line.split(",")[0]) for line in (directory / "q.csv").read_text(encoding="utf-8").splitlines()[1:]]


def test_a_recorded_batch_is_not_written_again(tmp_path: Path) -> None:
    sink, _ = sink_on(tmp_path)
    sink(batch(0), 0)
    sink(batch(1, finished=True), 1)
    sink.close()
    again, _ = sink_on(tmp_path)
    assert again.finished
    again(batch(1, finished=True), 1)  # Spark had not committed it
    again(batch(2), 2)
    again.close()
    assert written(tmp_path) == [0, 1, 2]
    assert (again.metrics.batches, again.metrics.queries["q"].arrived, again.metrics.queries["q"].out) == (3, 3, 3)


def test_what_was_written_without_a_record_is_cut_off(tmp_path: Path) -> None:
    sink, output = sink_on(tmp_path)
    sink(batch(0), 0)
    output.write(pa.table({"c0": [77], "_from": [0], "_to": [1]}))  # killed before the record
    output.close()
    again, _ = sink_on(tmp_path)
    again(batch(1), 1)
    again.close()
    assert written(tmp_path) == [0, 1]


def test_an_error_row_fails_the_batch_and_keeps_its_place(tmp_path: Path) -> None:
    sink, _ = sink_on(tmp_path)
    error = InputError("a number required", "s.csv", 3, "a")
    rows = [("task0", 1, "q", "lines", b"", None), ("task0", 1, None, "error", None, error_codec.to_text(error))]
    with pytest.raises(InputError, match=r"s\.csv:3: field 'a'"):
        sink(Frame(rows), 0)  # type: ignore[arg-type]  # as much of a DataFrame as the sink uses
    assert str(sink.error) == str(error)
    assert sink.record.batch == -1
    sink.close()


def test_a_closed_sink_takes_nothing_more(tmp_path: Path) -> None:
    sink, _ = sink_on(tmp_path)
    sink.close()
    with pytest.raises(RuntimeError, match="stopped"):
        sink(batch(0), 0)


def test_snapshots_are_kept_while_a_retained_state_names_them(tmp_path: Path) -> None:
    sink, _ = sink_on(tmp_path)
    chunks = tmp_path / "ck" / "chunks"
    chunks.mkdir(parents=True)
    for number in range(40):
        name = f"chunk{number // 4}"
        (chunks / name).touch()
        sink(batch(number, chunk=name), number)
        needed = {f"chunk{n // 4}" for n in range(max(0, number - RETAINED_BATCHES), number + 1)}
        found = {path.name for path in chunks.iterdir()}
        assert needed <= found
        assert len(found) <= RETAINED_BATCHES // 4 + 2
    sink.close()


def delivered(number: int, epoch: int = 1) -> DeliveredRound:
    """The only row of a round is its number."""
    rows = [dict(zip(result_rows.COLUMNS, row, strict=True)) for row in batch(number)._rows if row[3] != "chunk"]
    return DeliveredRound(epoch, 0, number, rows)


def rounds_in(directory: Path, epoch: int, count: int) -> None:
    log = RoundLog(str(directory / "ck"), epoch, 0, sync=True)
    for number in range(1, count + 1):
        log.append(Round(number, 0).encoded())
    log.close()


def close_epoch(sink: BatchSink, rounds: int, batch: int = 0) -> None:
    """Ends the lane's epoch as the lane does, and then as Spark does."""
    rows: list[tuple[Any, ...]] = [
        ("task0", 1, None, "chunk", None, None),
        ("task0", 1, None, "lane", None, json.dumps({"lane": 0, "rounds": rounds})),
    ]
    named = [dict(zip(result_rows.COLUMNS, row, strict=True)) for row in rows]
    sink._end_lane(EndedLane(batch + 1, 0, 1, named))
    assert sink.record.batch == batch, "the epoch is closed before Spark knows"
    sink(Frame(rows), batch)  # type: ignore[arg-type]


def test_rounds_of_two_attempts_are_written_once(tmp_path: Path) -> None:
    sink, _ = sink_on(tmp_path)
    rounds_in(tmp_path, 1, 4)
    sink._take_rounds([delivered(1), delivered(2)])
    sink._take_rounds([delivered(2), delivered(3), delivered(1), delivered(2), delivered(3)])
    assert written(tmp_path) == [1, 2, 3]
    sink._take_rounds([delivered(4)])
    close_epoch(sink, 4)
    sink._take_rounds([delivered(3), delivered(4)])
    sink.close()
    assert written(tmp_path) == [1, 2, 3, 4]
    assert sink.metrics.queries["q"].arrived == 4


def test_the_files_are_at_rest_between_two_epochs_only(tmp_path: Path) -> None:
    """A passive leader's files are copied then: the log of the epoch is whole. Its records of rounds go soon after."""
    sink, _ = sink_on(tmp_path)
    rounds_in(tmp_path, 1, 2)
    commits, ends = [], list[list[str]]()
    sink.on_commit = lambda needed, done: commits.append(done)
    sink.on_epoch = lambda: ends.append(sorted(path.name for path in (tmp_path / "ck/sink").iterdir()))
    sink._take_rounds([delivered(1)])
    sink._take_rounds([delivered(2)])
    assert (len(commits), ends) == (2, [])
    close_epoch(sink, 2)
    sink.close()
    assert len(commits) == 3
    assert [[name for name in names if name != "0.rounds"] for names in ends] == [["0.json"]]
    assert [path.name for path in (tmp_path / "ck/sink").iterdir()] == ["0.json"]


def test_recorded_rounds_stay_and_are_counted_once_after_a_restart(tmp_path: Path) -> None:
    sink, _ = sink_on(tmp_path)
    rounds_in(tmp_path, 1, 5)
    sink._take_rounds([delivered(1), delivered(2)])
    sink._take_rounds([delivered(3)])
    sink.close()
    with (tmp_path / "q.csv").open("a", encoding="utf-8") as file:
        file.write("99,half a li")  # written, not recorded
    again, _ = sink_on(tmp_path)
    assert written(tmp_path) == [1, 2, 3]
    assert again._begin_lane(1, 0) == 3
    assert again.metrics.queries["q"].arrived == 3
    again._take_rounds([delivered(4)])
    close_epoch(again, 4)
    again.close()
    assert written(tmp_path) == [1, 2, 3, 4]
    last, _ = sink_on(tmp_path)
    assert last._begin_lane(1, 0) > 1 << 60, "the sink log has the whole epoch"
    assert last.metrics.queries["q"].arrived == 4
    last.close()


def test_rounds_that_a_power_cut_took_from_the_round_log_are_cut_off(tmp_path: Path) -> None:
    """Only without syncs can an output have rounds that the log lacks. They would be decided anew."""
    sink, _ = sink_on(tmp_path)
    rounds_in(tmp_path, 1, 5)
    for number in (1, 2, 3):
        sink._take_rounds([delivered(number)])
    sink.close()
    path = path_of(tmp_path / "ck", 1, 0)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    again, _ = sink_on(tmp_path)
    assert again._begin_lane(1, 0) == 2
    assert written(tmp_path) == [1, 2]
    again.close()


class Rare(CsvSink):
    """Commits at the end of an epoch only."""

    commits_per_epoch = True


def test_rounds_that_come_again_for_a_rare_output_are_counted_once(tmp_path: Path) -> None:
    def opened() -> BatchSink:
        spec = RunSpec(App((), (QUERY,)), "run", str(tmp_path / "ck"), str(tmp_path))
        sink = BatchSink(spec, {"q": [("rare", Rare(str(tmp_path / "q.csv"), SCHEMA, False))]})
        sink.open()
        return sink

    rounds_in(tmp_path, 1, 4)
    first = opened()
    first._take_rounds([delivered(1), delivered(2), delivered(3)])
    first.close()
    again = opened()
    assert again._begin_lane(1, 0) == 0, "the output has nothing yet"
    again._take_rounds([delivered(number) for number in (1, 2, 3, 4)])
    close_epoch(again, 4)
    again.close()
    assert written(tmp_path) == [1, 2, 3, 4]
    assert (again.metrics.queries["q"].arrived, again.metrics.queries["q"].out) == (4, 4)


class AtIntervals(CsvSink):
    """Commits an hour after the first row, or when the test says so."""

    commit_interval_us = 3_600_000_000


def test_latencies_end_when_an_output_commits_that_does_so_at_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [10_000_000]
    monkeypatch.setattr("kigen.spark.sink.batch_sink.time.time_ns", lambda: clock[0] * 1000)

    def opened() -> BatchSink:
        spec = RunSpec(App((), (QUERY,)), "run", str(tmp_path / "ck"), str(tmp_path))
        output = AtIntervals(str(tmp_path / "q.csv"), SCHEMA, False)
        sink = BatchSink(spec, {"q": [("slow", output)]})
        sink.open()
        return sink

    def latencies_s(sink: BatchSink) -> list[int]:
        buckets = sink.metrics.queries["q"].latency.bounds_ms()
        return [round((low + high) / 2000) for low, high, count in buckets for _ in range(count)]

    rounds_in(tmp_path, 1, 5)
    first = opened()
    first._take_rounds([delivered(1)])
    assert latencies_s(first) == [], "given to the output, not committed"
    assert first.metrics.queries["q"].arrived == 1
    clock[0] = 20_000_000
    first._due_at["slow"] = 0.0
    first._take_rounds([delivered(2)])
    assert latencies_s(first) == [20, 20]
    first._take_rounds([delivered(3)])
    first.close()

    again = opened()  # killed before the output committed round 3
    assert latencies_s(again) == [20, 20]
    assert again._begin_lane(1, 0) == 2
    clock[0] = 40_000_000
    again._take_rounds([delivered(3), delivered(4)])
    assert latencies_s(again) == [20, 20]
    close_epoch(again, 4)
    again.close()
    assert latencies_s(again) == [20, 20, 40, 40]
    assert again.metrics.queries["q"].arrived == 4
    assert latencies_s(opened()) == [20, 20, 40, 40], "the sink log has them"
