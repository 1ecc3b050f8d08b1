"""The stateful operator without Spark: the state is a variable, and tests empty the worker's cache."""

from __future__ import annotations

import json
import random
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from rooms import write_rooms
from spark.worker_side import State

from kigen.connectors import InputError, Range
from kigen.connectors import Rows as RangeRows
from kigen.durable import DamagedFile
from kigen.plan import load_app
from kigen.spark.admission.offsets import initial_offset, next_offset
from kigen.spark.admission.reader import AdmissionReader
from kigen.spark.operator import error_codec, group_step, manifest, range_reader, task_step
from kigen.spark.operator.manifest import Manifest, ManifestFormatError
from kigen.spark.operator.result_rows import Spool
from kigen.spark.spec import RunSpec

Rows = list[tuple[Any, ...]]


def batches(spec: RunSpec) -> list[list[tuple[str, int, int, str]]]:
    reader, sources = AdmissionReader(spec), spec.sources(0)
    offset, found = initial_offset(sources, spec.tasks, 0), []
    while (after := next_offset(offset, sources, spec.batch_rows, 10**15)) != offset:
        found.append(list(reader.readBetweenOffsets(offset.to_json(), after.to_json())))
        offset = after
    return found


def play(spec: RunSpec, forget: bool, workers: int = 1) -> tuple[dict[str, list[str]], dict[str, State]]:
    """Returns all lines of each query. Several workers take turns at random.

    With `forget`, every batch runs in a worker with an empty cache.
    """
    caches: list[dict[Any, Any]] = [{} for _ in range(workers)]
    turns = random.Random(7)
    states: dict[str, State] = {task.name: State() for task in spec.tasks}
    lines: dict[str, list[str]] = {}
    for rows in batches(spec):
        for task, bucket, seq, payload in rows:
            task_step._KERNELS = {} if forget else turns.choice(caches)
            frame = pd.DataFrame([(task, bucket, seq, payload)], columns=["task", "bucket", "seq", "payload"])
            for out in group_step.run_group((task, bucket), iter([frame]), states[task], spec.encode()):
                for row in out.itertuples():
                    assert row.kind != "error", row.note
                    if row.kind == "lines":
                        found = Spool(spec.checkpoint).unpack(row.payload, row.note)
                        lines.setdefault(row.query, []).extend(str(line) for line in found.to_pylist())
    return {query: sorted(found) for query, found in lines.items()}, states


def spec_of(tmp_path: Path, rows: int = 400, **changes: Any) -> RunSpec:
    app = load_app(write_rooms(tmp_path, rows))
    values = {
        "app": app,
        "run_id": tmp_path.name,
        "checkpoint": str(tmp_path / "ck"),
        "scratch": str(tmp_path),
        "batch_rows": 37,
        **changes,
    }
    return RunSpec(**values)


@pytest.fixture(autouse=True)
def _frequent_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes a snapshot every third step, so that few tuples show what a long run does."""
    monkeypatch.setattr(manifest, "LEAST_WEIGHT", 2 * manifest.STEP_WEIGHT)


def test_a_worker_that_lost_its_cache_gives_the_same_lines(tmp_path: Path) -> None:
    kept, _ = play(spec_of(tmp_path, run_id="kept"), forget=False)
    lost, _ = play(spec_of(tmp_path, run_id="lost"), forget=True)
    chunked, states = play(spec_of(tmp_path, run_id="chunked", inline_bytes=0), forget=True)
    assert set(kept) == {"hot", "meet", "calm", "arrivals"}
    assert lost == kept
    assert chunked == kept
    assert play(spec_of(tmp_path, run_id="turns"), forget=False, workers=2)[0] == kept
    assert any(Manifest.from_state(state.get).chunk for state in states.values())


def test_a_batch_that_is_made_again_starts_from_the_state_before_it(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    state = State()
    first, second = [next(row for row in rows if row[0] == "task0") for rows in batches(spec)[:2]]

    def run(row: tuple[str, int, int, str]) -> list[Any]:
        frame = pd.DataFrame([row], columns=["task", "bucket", "seq", "payload"])
        return [
            r.payload
            for out in group_step.run_group((row[0], 0), iter([frame]), state, spec.encode())
            for r in out.itertuples()
        ]

    run(first)
    before = state.value
    once = run(second)
    state.value = before  # Spark did not commit: the worker's cache is ahead of the state
    assert run(second) == once


def test_an_error_of_the_input_leaves_as_a_row_and_the_state_as_it_was(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    row = batches(spec)[0][0]
    with (tmp_path / "readings.csv").open("r+", encoding="utf-8") as file:
        file.readline()
        file.seek(file.tell())
        file.write("\x00,??")
    state = State()
    frame = pd.DataFrame([row], columns=["task", "bucket", "seq", "payload"])
    (out,) = group_step.run_group((row[0], 0), iter([frame]), state, spec.encode())
    assert list(out["kind"]) == ["error"]
    assert isinstance(error_codec.from_text(out["note"][0]), InputError)
    assert not state.exists


def test_the_state_does_not_grow_with_the_stream(tmp_path: Path) -> None:
    """Windows last up to 5 s (or 100 rows, about 8 s), the stream about 80 s: after the first windows the stored size
    is level."""
    spec = spec_of(tmp_path, rows=1100, batch_rows=40, inline_bytes=1 << 30)
    sizes: list[int] = []
    states = {task.name: State() for task in spec.tasks}
    for rows in batches(spec):
        for task, bucket, seq, payload in rows:
            frame = pd.DataFrame([(task, bucket, seq, payload)], columns=["task", "bucket", "seq", "payload"])
            list(group_step.run_group((task, bucket), iter([frame]), states[task], spec.encode()))
        sizes.append(sum(len(s.value[1]) + len(s.value[2] or b"") for s in states.values() if s.value))
    third = len(sizes) // 3
    assert third > 10
    assert max(sizes[-third:]) < 1.2 * max(sizes[third : 2 * third]), sizes


def test_state_of_another_format_is_refused() -> None:
    with pytest.raises(ManifestFormatError, match="state format 1 required, found 9"):
        Manifest.from_state((3, json.dumps({"v": 9}), None))


def test_a_replay_of_changed_input_is_an_error_with_the_file_and_the_range(tmp_path: Path) -> None:
    """The worker is gone, so its state is rebuilt from the input. The file was rotated, but is as long as before."""
    spec, state = spec_of(tmp_path), State()
    rows = [next(row for row in found if row[0] == "task0") for found in batches(spec)[:2]]
    for n, row in enumerate(rows):
        if n:
            data = bytearray((tmp_path / "readings.csv").read_bytes())
            at = data.index(b"\n") + 1
            digit = next(i for i in range(at, len(data)) if chr(data[i]).isdigit())
            data[digit] = ord("1") if data[digit] != ord("1") else ord("2")
            (tmp_path / "readings.csv").write_bytes(bytes(data))
        task_step._KERNELS, range_reader._READ, range_reader._SOURCES = {}, OrderedDict(), {}
        frame = pd.DataFrame([row], columns=["task", "bucket", "seq", "payload"])
        (out,) = group_step.run_group((row[0], 0), iter([frame]), state, spec.encode())
        assert (out["kind"][0] == "error") == (n == 1)
    error = error_codec.from_text(out["note"][0])
    assert isinstance(error, InputError)
    assert str(error).startswith(str(tmp_path / "readings.csv"))
    assert "bytes" in str(error)
    assert "new --checkpoint" in str(error)


def test_a_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    held = Manifest()
    held.take_snapshot(b"x" * 100, tmp_path, inline_bytes=10)
    assert held.load_snapshot(tmp_path) == b"x" * 100
    (path,) = tmp_path.iterdir()
    path.write_bytes(b"x" * 99 + b"y")
    with pytest.raises(DamagedFile, match=rf"{path.name}.*do not match the checksum.*new --checkpoint"):
        held.load_snapshot(tmp_path)
    path.unlink()
    with pytest.raises(DamagedFile, match=rf"{path.name}.*missing"):
        held.load_snapshot(tmp_path)
    assert isinstance(error_codec.from_text(error_codec.to_text(DamagedFile("a", "b", "c"))), DamagedFile)


def test_the_many_ranges_of_a_replay_are_one_table() -> None:
    """The kernel halts at every table: 11,000 rounds took it minutes, and as one table a second."""
    piece = Range("s", {"index": 0}, {"index": 1}, progress_us=7)
    rows = RangeRows(pa.table({"c0": pa.array([1]), "_ts": pa.array([5], pa.int64())}))
    (given,) = task_step._inputs([(piece, rows)] * 300).values()
    (table,) = given.tables
    assert (table.num_rows, table.column("c0").num_chunks, given.progress_us) == (300, 1, 7)
    assert len(task_step._inputs([(piece, rows)] * 3)["s"].tables) == 3, "a copy is not worth it"
