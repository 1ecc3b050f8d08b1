"""A followed file through admission without Spark: ranges carry bytes and arrivals, cursors their place, and a restart
from the recorded offset continues exactly there."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from kigen.connectors import LiveSource, Range, open_source
from kigen.lifetimes.blocks import FOREVER
from kigen.lifetimes.intake import Intake, StreamInput
from kigen.plan import bind
from kigen.plan.logical import App
from kigen.plan.tasks import extract_tasks
from kigen.schedule import PolicySettings
from kigen.spark.admission.offsets import Offset, batch_of, initial_offset, next_offset
from kigen.spark.admission.scheduling import Scheduling
from kigen.spark.rounds.round import advance_cursors
from kigen.spark.scratch import Committed

STREAM = """CREATE STREAM s (n BIGINT, ts TIMESTAMP) TIMESTAMP BY ts {} FROM jsonl (path = 's.jsonl', follow = true);
CREATE QUERY one AS SELECT n FROM s [RANGE 1 SECONDS];
CREATE QUERY two DEADLINE 1 SECONDS FIRM AS SELECT n + 1 AS m FROM s [ROWS 3];
"""


class Run:
    """The reader's side of a run, from an offset on."""

    def __init__(self, app: App, folder: Path, offset: Offset | None = None) -> None:
        self.app, self.tasks, self.folder = app, extract_tasks(app), folder
        self.started_us = time.time_ns() // 1000 if offset is None else offset.started_us
        self.source = self.open()
        self.offset = offset or initial_offset({"s": self.source}, self.tasks, self.started_us)
        queues = self.queues()
        settings = PolicySettings(may_drop=False)
        self.scheduling = Scheduling(app, self.tasks, {"s": self.source}, queues, ("all", settings), 1_000_000)

    def open(self) -> LiveSource:
        source = open_source(
            self.app.stream("s"), str(self.folder), False, self.started_us, str(self.folder / "checkpoint")
        )
        assert isinstance(source, LiveSource)
        return source

    def queues(self) -> dict[str, dict[str, dict[str, Any]]]:
        return {task: {s: dict(at) for s, at in streams.items()} for task, streams in self.offset.queues.items()}

    def check_cursors(self, after: Offset) -> None:
        """The cursors that a replay of the decision gives are those of the offset: position and offset belong
        together."""
        queues = self.queues()
        advance_cursors(queues, after.taken)
        for task, streams in after.queues.items():
            recorded, replayed = streams["s"], queues[task]["s"]
            assert replayed["index"] == recorded["index"]
            assert {**recorded["at"], **replayed["at"]} == replayed["at"], "beside the position, a range has its parts"

    def batch(self, rows: int) -> dict[str, list[int]]:
        """Waits for that many rows, admits them, and returns what a worker reads of them, per task."""
        until = time.monotonic() + 120
        while self.source.arrived_by(2**62) < rows:
            assert time.monotonic() < until, f"{self.source.arrived_by(2**62)} of {rows} rows"
            time.sleep(0.005)
        queues = self.queues()
        now_us = time.time_ns() // 1000
        taken = self.scheduling.next(self.offset.seq + 1, now_us, queues, Committed(-1, 0, {}), False)
        after = next_offset(self.offset, {}, 0, now_us, (queues, taken))
        after = Offset.from_json(json.loads(json.dumps(after.to_json())))
        self.check_cursors(after)
        batch, self.offset = batch_of(self.offset, after, self.tasks), after
        worker = self.open()
        found: dict[str, list[int]] = {}
        for task, mine in batch.items():
            for piece in mine["ranges"]:
                found.setdefault(task, []).extend(worker.read(Range.from_json(piece)).table.column("c0").to_pylist())
        return found


def append(path: Path, numbers: range) -> None:
    with open(path, "a", encoding="utf-8") as file:
        for number in numbers:
            file.write(json.dumps({"n": number, "ts": f"2026-01-01T00:00:{number:02d}Z"}) + "\n")


def test_restarts_continue_at_the_recorded_offset(tmp_path: Path) -> None:
    app, log = bind(STREAM.format("")), tmp_path / "s.jsonl"
    run = Run(app, tmp_path)
    append(log, range(5))
    assert list(run.batch(5).values()) == [[0, 1, 2, 3, 4]] * 2
    append(log, range(5, 7))
    assert list(run.batch(7).values()) == [[5, 6]] * 2
    os.replace(log, tmp_path / "s.jsonl.1")
    append(log, range(7, 9))
    again = Run(app, tmp_path, run.offset)
    append(tmp_path / "s.jsonl.1", range(9, 10))
    rows = again.batch(10)
    assert sorted(rows[run.tasks[0].name]) == [7, 8, 9]
    assert rows[run.tasks[0].name] == rows[run.tasks[1].name]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_silent_file_moves_time_on_with_idle(tmp_path: Path, restarted: bool) -> None:
    """Also if a run continues at the end of the file: its rows may still be held."""
    app = bind(STREAM.format("IDLE 2 SECONDS"))
    began_ns = time.monotonic_ns()
    append(tmp_path / "s.jsonl", range(3))
    run = Run(app, tmp_path)
    run.batch(3)
    stream, intake = app.stream("s"), Intake(app.stream("s"))

    def take(piece: Range) -> None:
        rows = run.open().read(piece)
        intake.take_in(StreamInput([rows.table], partitions=rows.partitions))

    assert stream.idle_us == 2_000_000
    take(run.source.piece("s", 0, 3, None, False))
    newest = intake.progress
    if restarted:
        run = Run(app, tmp_path, run.offset)
    before = run.offset.queues[run.tasks[0].name]["s"]["at"]
    until = time.monotonic() + 120
    while not run.source.wants_step(before):
        assert time.monotonic() < until
        time.sleep(0.02)
    silent_us = (time.monotonic_ns() - began_ns) // 1000
    run.source.position(3)
    take(run.source.piece("s", 3, 3, None, False))
    assert newest < intake.progress < newest + silent_us + 60_000_000, "by the time of silence, not to the end of time"


def test_a_recorded_file_ends(tmp_path: Path) -> None:
    app = bind(STREAM.format("").replace("follow = true", "pace = 1000"))
    append(tmp_path / "s.jsonl", range(40))
    run = Run(app, tmp_path)
    found: list[int] = []
    until = time.monotonic() + 120
    task = run.tasks[0].name
    while not run.offset.queues[task]["s"]["ended"]:
        assert time.monotonic() < until
        found += run.batch(0).get(task, [])
        known = int(run.offset.queues[task]["s"]["index"])
        now_us = time.time_ns() // 1000
        due_us = run.source.next_arrival_us(known, now_us)
        assert due_us is not None
        assert due_us == FOREVER or due_us <= run.offset.started_us + 40_000
    assert found == list(range(40))
    again = Run(app, tmp_path, run.offset)
    assert again.batch(0) == {}
