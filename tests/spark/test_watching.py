"""The watch over a step, without Spark: a step ends at the memory limit between operators, reports are rare, and
watching costs next to nothing."""

from __future__ import annotations

import errno
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bids import write_bids
from spark.worker_side import State
from test_operator import batches, play

from kigen.plan import load_app
from kigen.spark.operator import group_step, task_step
from kigen.spark.spec import RunSpec
from kigen.spark.watch import memory, step_watch
from kigen.spark.watch.memory import MemoryLimitReached
from kigen.spark.watch.worker_files import IDLE, WorkerFiles


def spec_of(directory: Path, rows: int, **changes: Any) -> RunSpec:
    app = load_app(str(write_bids(directory, rows)))
    (directory / "scratch").mkdir()
    values = {
        "app": app,
        "run_id": directory.name,
        "checkpoint": str(directory / "ck"),
        "scratch": str(directory / "scratch"),
    }
    return RunSpec(**{**values, **changes})


def rows_of(spec: RunSpec) -> list[tuple[str, str | None]]:
    """Returns kind and note of each row that the first batch produces."""
    import pandas as pd

    task, bucket, seq, payload = batches(spec)[0][0]
    frame = pd.DataFrame([(task, bucket, seq, payload)], columns=["task", "bucket", "seq", "payload"])
    found = list(group_step.run_group((task, bucket), iter([frame]), State(), spec.encode()))
    return [(row.kind, row.note) for out in found for row in out.itertuples()]


def test_a_step_ends_at_the_limit_with_a_row_of_kind_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(tmp_path, 30_000)
    monkeypatch.setattr(step_watch, "_LOOK_S", 0.0)
    looks: list[int] = []

    def used(self: step_watch.StepWatch) -> int:
        looks.append(1)
        return 10**12 if len(looks) > 6 else 0

    monkeypatch.setattr(step_watch.StepWatch, "_used", used)
    ((kind, note),) = rows_of(spec)
    assert kind == "error"
    told = json.loads(note or "")["memory"]
    assert told.startswith("query matched ran out of memory: the workers of the run use 1000 GB")
    assert "the work of one batch" in told
    assert (tmp_path.name, "task0", spec.bucket("task0")) not in task_step._KERNELS, "its state is dropped"


def test_an_array_that_is_refused_is_the_operators_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(tmp_path, 1_000)

    def far_too_large(*_: object) -> None:
        np.empty(1 << 50)

    monkeypatch.setattr("kigen.lifetimes.joins.join.DirectJoin.pieces", far_too_large)
    ((kind, note),) = rows_of(spec)
    assert kind == "error"
    told = json.loads(note or "")["memory"]
    assert told.startswith(
        "query matched ran out of memory: its work (join on auction = id) asked for more at once than --memory allows"
    )
    assert "Unable to allocate 8.00 PiB" in told


def test_small_batches_leave_few_crumbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(tmp_path, 4_000, batch_rows=20)
    left: list[float] = []
    monkeypatch.setattr(WorkerFiles, "write_report", lambda *_: left.append(time.monotonic()))
    began = time.monotonic()
    play(spec, forget=False)
    assert 1 <= len(left) <= 2 + 4 * (time.monotonic() - began), "at most four a second"


def test_watching_a_small_batch_costs_well_below_a_millisecond(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, 4_000)
    mine = step_watch.StepWatch(spec, spec.tasks[0], 0, lambda _: None)
    kernel = spec.task_runtime("task0")
    nodes = list(spec.tasks[0].queries[0].root.walk())
    began, count = time.process_time(), 200
    for seq in range(count):
        mine.begin(seq, {})
        with mine.stepping(kernel, 10):
            for node in nodes:
                mine.before_operator(node, seq)
        mine.done()
    assert (time.process_time() - began) / count < 0.001


def test_the_crumb_says_how_far_a_step_is(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, 5_000)
    play(spec, forget=False)
    (report,) = WorkerFiles(spec.scratch).reports()
    assert report.alive
    assert report.queries == ["matched"]
    assert report.operators[-1][1] == ["matched"]
    assert report.private > 0
    assert report.phase in (IDLE, "reading", "computing")


def test_without_the_runs_directory_a_worker_has_an_equal_share(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, 100, scratch=str(tmp_path / "on another machine"), memory="4GB", partitions=4)
    mine = step_watch.StepWatch(spec, spec.tasks[0], 0, lambda _: None)
    assert mine._limit == 10**9
    mine.begin(1, {})
    mine.done()
    assert not (tmp_path / "on another machine").exists()


def test_what_was_freed_is_given_back_before_a_run_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(tmp_path, 100)
    relieved: list[int] = []
    mine = step_watch.StepWatch(spec, spec.tasks[0], 0, lambda _: relieved.append(1))
    limit = memory.limit_bytes(spec.memory)
    uses = iter([round(0.8 * limit), round(1.1 * limit), round(0.5 * limit), round(1.1 * limit), round(0.97 * limit)])
    monkeypatch.setattr(step_watch.StepWatch, "_used", lambda _: next(uses))
    mine.check(("join", ["matched"]))
    assert relieved == [1], "at 75 % already"
    mine.check(("join", ["matched"]))
    with pytest.raises(MemoryLimitReached, match="query matched"):
        mine.check(("join", ["matched"]))
    assert len(relieved) == 3


def test_a_worker_watches_the_steps_of_two_runs(tmp_path: Path) -> None:
    """Runs on one Spark share its workers, and a lane goes on while its worker is asked for another run."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = spec_of(tmp_path / "one", 100), spec_of(tmp_path / "two", 100)
    mine = task_step._watch_of(one, one.tasks[0].name, 0)
    task_step._watch_of(two, two.tasks[0].name, 0)
    with mine.stepping(one.task_runtime(one.tasks[0].name), 0):
        pass


def test_a_file_system_without_maps_gets_reports_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr("mmap.mmap", refuse)
    spec = spec_of(tmp_path, 100)
    play(spec, forget=False)
    (report,) = WorkerFiles(spec.scratch).reports()
    assert report.queries == ["matched"]
