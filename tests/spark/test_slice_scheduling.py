"""Policies over slices in admission, without Spark, on a virtual clock: cursors, buffers, restarts, lines of workers.

offset:  task0          slice 1 of a: 12, of b: 9
         task0 slice 2             8         7        never ahead of slice 1
"""

from __future__ import annotations

import copy
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from spark.worker_side import State, decided

from kigen.connectors import LiveSource
from kigen.engine import Engine, RunOptions
from kigen.engine.checkpoint.fingerprint import CheckpointMismatch
from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks
from kigen.schedule import PolicySettings
from kigen.spark.admission.live_queues import queue_of, spans
from kigen.spark.admission.offsets import initial_offset
from kigen.spark.admission.reader import AdmissionReader
from kigen.spark.admission.slice_scheduling import SliceScheduling
from kigen.spark.operator import group_step, manifest, range_reader, task_step
from kigen.spark.operator.result_rows import Spool
from kigen.spark.scratch import Committed
from kigen.spark.sink.metrics import Metrics
from kigen.spark.spec import RunSpec

SECOND = 1_000_000
WINDOWS = (1, 2, 20, 60)  # seconds


def app_text(buffer: str = "", rate: int = 20, seconds: int = 20, keys: int = 4) -> str:
    streams = [
        f"CREATE STREAM {s} (k BIGINT, v BIGINT) FROM synthetic (rate = {rate}, arrivals = 'poisson', seed = {i}, "
        f"duration = '{seconds} s',"
        f" k = 'uniform(0, {keys})', v = 'sequence') {buffer};"
        for i, s in enumerate("ab")
    ]
    shapes = ("a.v AS x, b.v AS y", "a.k, COUNT(*) AS n", "a.v AS x, b.v AS y", "COUNT(*) AS n")
    tails = ("", " GROUP BY a.k", " AND a.v < b.v", "")
    queries = [
        f"CREATE QUERY q{i} AS SELECT {shapes[i]} FROM a [RANGE {w} SECONDS], b [RANGE {w} SECONDS] WHERE a.k = "
        f"b.k{tails[i]};"
        for i, w in enumerate(WINDOWS)
    ]
    return "\n".join([*streams, *queries])


class Play:
    """A run on a virtual clock, with workers: each batch takes `tuple_us` per whole tuple, plus a fixed time."""

    def __init__(self, tmp_path: Path, text: str, policy: str = "mqt", seed: int = 0, **settings: Any) -> None:
        self.rng = np.random.default_rng(seed)
        self.spec = RunSpec(
            app=bind(text),
            run_id=f"{tmp_path.name} {policy} {seed}",
            checkpoint=str(tmp_path / "ck"),
            scratch=str(tmp_path),
            draining=False,
            policy=policy,
            settings=PolicySettings(fixed_us=50_000.0, doubt=500.0, **settings),
        )
        self.sources = {name: s for name, s in self.spec.sources(0).items() if isinstance(s, LiveSource)}
        counts = {task: len(slices.queries) for task, slices in self.spec.slices.items()}
        self.offset = initial_offset(dict(self.sources), self.spec.tasks, 0, counts)
        self.committed, self.state, self.metrics = Committed(), State(), Metrics.fresh(self.spec.app)
        self.lines: dict[str, Counter[str]] = {query.name: Counter() for query in self.spec.app.queries}
        self.finished = False
        self.reader = AdmissionReader(self.spec)
        self.restart()

    def restart(self) -> None:
        spec = self.spec
        self.scheduling = SliceScheduling(
            spec.app, spec.tasks, self.sources, self.offset.queues, (spec.policy, spec.settings), 10**6, spec.slices
        )

    def batch(self, now_us: int, closing: bool = False) -> dict[str, Any]:
        after = decided(self.scheduling, self.offset, now_us, self.committed, closing)
        rows = list(self.reader.readBetweenOffsets(self.offset.to_json(), after.to_json()))
        self.offset = after
        for task, bucket, seq, payload in rows:
            if self.rng.random() < 0.2:
                task_step._KERNELS.clear()
            if self.rng.random() < 0.1:  # Spark did not commit: the batch is made again
                before = self.state.value
                once = self._run(task, bucket, seq, payload)
                self.state.value = before
                assert self._run(task, bucket, seq, payload) == once
            else:
                once = self._run(task, bucket, seq, payload)
            for name, found in once[0].items():
                self.lines[name] += found
            self.metrics.step(self.spec.app, once[1])
            self.metrics.committed(self.spec.app, once[1], now_us, once[1]["counts"])
            self.finished = once[1]["finished"]
            self.committed = Committed(seq, now_us, {task: once[1]["next_event_us"]})
            return {**json.loads(payload), "note": once[1]}
        return {}

    def _run(self, task: str, bucket: int, seq: int, payload: str) -> tuple[dict[str, Counter[str]], dict[str, Any]]:
        frame = pd.DataFrame([(task, bucket, seq, payload)], columns=["task", "bucket", "seq", "payload"])
        lines: dict[str, Counter[str]] = {}
        note: dict[str, Any] = {}
        for out in group_step.run_group((task, bucket), iter([frame]), self.state, self.spec.encode()):
            for row in out.itertuples():
                assert row.kind != "error", row.note
                if row.kind == "lines":
                    found = Spool(self.spec.checkpoint).unpack(row.payload, row.note).to_pylist()
                    lines.setdefault(row.query, Counter()).update(str(line) for line in found)
                elif row.kind == "step":
                    note = {**json.loads(row.note), "done_us": 0, "state": None}  # told from time to time
        return lines, note

    def to_the_end(self, tuple_us: float, restarts: float = 0.0) -> None:
        now, budget = 0, 5_000
        while not self.finished and budget:
            got = self.batch(now)
            ran = sum(counts["in"] for counts in got["note"]["counts"].values()) if got else 0
            now += 50_000 + int(tuple_us * ran / len(WINDOWS) * self.rng.uniform(0.7, 1.3))
            if self.rng.random() < restarts:
                self.restart()
            budget -= 1
        assert self.finished


def alone(play: Play, name: str, absent: dict[str, set[int]] | None = None) -> Counter[str]:
    """Returns the query's lines over its whole streams, without the tuples at these offsets."""
    app = play.spec.app
    tables = {}
    for stream, source in play.sources.items():
        total = source.total()
        assert total is not None
        table = source.read(source.piece(stream, 0, total, None, True)).table
        gone = (absent or {}).get(stream, set())
        tables[stream] = table.filter(pa.array([i not in gone for i in range(total)]))
    (task,) = [t for t in extract_tasks(app) if any(q.name == name for q in t.queries)]
    kernel = TaskRuntime(task, app)
    result = kernel.step({stream: StreamInput([table], None, True) for stream, table in tables.items()})
    found = result.outputs.get(name)
    return Counter() if found is None else Counter(str(line) for line in found.to_pylist())


@pytest.fixture(autouse=True)
def _frequent_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "LEAST_WEIGHT", 4 * manifest.STEP_WEIGHT)
    task_step._KERNELS.clear()
    range_reader._SOURCES.clear()


@pytest.mark.parametrize(("policy", "seed"), [("mqt", 0), ("mqt", 1), ("mandf", 2), ("admandf", 3), ("salvage", 4)])
def test_every_query_gets_the_lines_it_would_get_alone(tmp_path: Path, policy: str, seed: int) -> None:
    """Under overload (40 ms per tuple, 40 per second), with restarts and replays and without drops, all lines come."""
    play = Play(tmp_path, app_text(seconds=6), policy, seed)
    assert len(play.spec.slices["task0"].queries) == 4
    play.to_the_end(40_000.0, restarts=0.1)
    for query in play.spec.app.queries:
        assert play.lines[query.name] == alone(play, query.name), query.name
    told = [play.metrics.queries[f"q{i}"] for i in range(4)]
    total = sum(source.total() or 0 for source in play.sources.values())
    assert [(m.arrived, m.dropped) for m in told] == [(total, 0)] * 4
    assert [sum(m.latency.counts.values()) for m in told] == [total] * 4


def test_slices_after_the_first_never_lead_and_time_is_told_in_order(tmp_path: Path) -> None:
    play = Play(tmp_path, app_text(seconds=6), "mqt", 5)
    apart, now = 0, 0
    while not play.finished:
        got = play.batch(now)
        now += 50_000 + 40_000 * (sum(counts["in"] for counts in got["note"]["counts"].values()) if got else 0) // len(
            WINDOWS
        )
        places = [{s: at["index"] for s, at in play.offset.queues[queue_of("task0", i)].items()} for i in range(4)]
        for before, after in itertools.pairwise(places):
            assert all(after[stream] <= before[stream] for stream in before)
            apart += before != after
        until = [mine["until_us"] for mine in got.get("slices", ()) if mine["until_us"] is not None]
        assert until == sorted(until, reverse=True)
    assert apart > 5, "mqt puts dear slices off"


def evictions(play: Play, got: dict[str, Any], gone: list[dict[str, set[int]]]) -> None:
    """Returns the offsets of the tuples that each slice skips."""
    for place, mine in enumerate([got, *got.get("slices", ())]):
        for stream, bounds in mine["shed"].items():
            for first, end in spans(bounds):
                gone[place].setdefault(stream, set()).update(range(first, end))


@pytest.mark.parametrize(("policy", "seed"), [("mqt", 0), ("mqt", 1), ("admandf", 2), ("salvage", 3), ("salvage", 4)])
def test_a_buffer_drops_for_the_queries_whose_slices_had_not_run(tmp_path: Path, policy: str, seed: int) -> None:
    """What is dropped for a query is absent from the windows of that query alone: its lines are those of the rest.

    Slices cost more the wider their windows are. `salvage` refuses tuples and takes later ones, also after a restart.
    """
    play = Play(tmp_path, app_text("BUFFER 30", seconds=8), policy, seed)
    gone: list[dict[str, set[int]]] = [{} for _ in WINDOWS]
    now, holes, restarts = 0, 0, 0
    while not play.finished:
        got = play.batch(now)
        counts = got["note"]["counts"] if got else {}
        ran = sum(share * counts[f"q{i}"]["in"] for i, share in enumerate((0.05, 0.05, 0.3, 0.6)) if counts)
        now += 50_000 + int(40_000 * ran)
        if got:
            evictions(play, got, gone)
        skipped = any("skipped" in at for queue in play.offset.queues.values() for at in queue.values())
        holes += skipped
        if play.rng.random() < (0.3 if skipped else 0.05):
            play.restart()
            restarts += skipped
    dropped = [play.metrics.queries[f"q{i}"].dropped for i in range(4)]
    assert dropped == [sum(map(len, mine.values())) for mine in gone]
    assert dropped == sorted(dropped)
    assert dropped[-1] >= dropped[0] + 20, dropped
    assert (holes > 0, restarts > 0) == (policy == "salvage",) * 2
    total = sum(source.total() or 0 for source in play.sources.values())
    assert [play.metrics.queries[f"q{i}"].arrived for i in range(4)] == [total] * 4
    for place, query in enumerate(play.spec.app.queries):
        assert play.lines[query.name] == alone(play, query.name, gone[place]), query.name


def test_closing_lets_every_slice_come_to_the_end(tmp_path: Path) -> None:
    play = Play(tmp_path, app_text(seconds=1000), "mqt", 7)
    for now in (1_000_000, 1_300_000, 2_000_000):
        play.batch(now)
    for step in range(200):
        if play.finished:
            break
        play.batch(2_300_000 + step * 100_000, closing=True)
    assert play.finished


def test_tasks_that_cannot_be_sliced_run_whole_beside_it(tmp_path: Path) -> None:
    text = app_text(seconds=4) + "CREATE QUERY other AS SELECT COUNT(*) AS n FROM a [ROWS 7];"
    spec = Play(tmp_path, text).spec
    assert [task.name for task in spec.tasks] == ["task0", "task1"]
    assert list(spec.slices) == ["task0"]
    scheduling = SliceScheduling(
        spec.app,
        spec.tasks,
        Play(tmp_path, text).sources,
        Play(tmp_path, text).offset.queues,
        ("mqt", PolicySettings()),
        10**6,
        spec.slices,
    )
    queues = copy.deepcopy(Play(tmp_path, text).offset.queues)
    taken = scheduling.next(1, SECOND, queues, Committed(), False)
    assert set(taken) == {"task0", "task0 slice 2", "task0 slice 3", "task0 slice 4", "task1"}
    assert sum(piece.rows or 0 for piece in taken["task1"].ranges) > 5


@pytest.mark.parametrize(
    ("change", "sliced"),
    [
        (("RANGE", "RANGE"), True),
        (("[RANGE 60 SECONDS], b [RANGE 60 SECONDS]", "[RANGE 60 SECONDS], b [RANGE 1 SECONDS]"), False),  # no chain
        (("k BIGINT, v BIGINT)", "k BIGINT, v BIGINT, ts TIMESTAMP) TIMESTAMP BY ts"), False),
    ],
)
def test_which_tasks_run_slice_by_slice(change: tuple[str, str], sliced: bool, tmp_path: Path) -> None:
    spec = RunSpec(bind(app_text().replace(*change)), "r", str(tmp_path), str(tmp_path), draining=False, policy="mqt")
    assert bool(spec.slices) is sliced
    assert not RunSpec(spec.app, "r", str(tmp_path), str(tmp_path), draining=True, policy="mqt").slices
    assert not RunSpec(spec.app, "r", str(tmp_path), str(tmp_path), draining=False, policy="fifo").slices


def test_a_checkpoint_of_slices_is_not_one_of_whole_tasks(tmp_path: Path) -> None:
    """Another policy of the same kind continues from the state. Other kinds are refused with advice."""
    file, checkpoint = tmp_path / "app.cql", str(tmp_path / "checkpoint")
    file.write_text(app_text(), encoding="utf-8")
    engine = Engine()
    for policy in ("mqt", "admandf"):
        engine.prepare(file, RunOptions(drain=False, checkpoint=checkpoint, policy=policy)).stop()
    with pytest.raises(CheckpointMismatch, match=r"slice by slice .*: task0 there, None here"):
        engine.prepare(file, RunOptions(drain=False, checkpoint=checkpoint, policy="fifo"))
