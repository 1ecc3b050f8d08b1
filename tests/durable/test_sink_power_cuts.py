"""Cuts the power at random moments of a run with outputs of every kind: in the end each has every row once."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from durable.power import PowerCut, PowerDisk
from durable.sparkless import Query as StreamingQuery
from durable.sparkless import StateLost, frame

from kigen.connectors import InputError, open_sink
from kigen.durable import DamagedFile, make_directories, standing_in
from kigen.lifetimes.exchange.sent import queue_schema
from kigen.plan.logical import App, Connector, Query, Scan, Window, WindowKind
from kigen.plan.types import Column, Type
from kigen.queue import Queue, QueueError, QueueSettings, SequenceGap
from kigen.spark.links.link_sink import LinkSink
from kigen.spark.sink.batch_sink import BatchSink
from kigen.spark.spec import RunSpec

SCHEMA = (Column("a", Type.BIGINT),)
QUERY = Query("q", Window(Scan("s", SCHEMA), WindowKind.ROWS, 3))
TOTAL = 150
CLEAR = (DamagedFile, QueueError, InputError, StateLost)


class Run:
    """One process of a run, with csv and parquet outputs, and with `linked` a queue that another node reads."""

    def __init__(self, root: Path, syncs: bool, linked: bool, spark_syncs: bool | None = None) -> None:
        self.queue: Queue | None = None
        make_directories(root / "ck", syncs)  # as the engine does
        outputs = [
            ("csv", open_sink(Connector("csv", (("path", "q.csv"),)), SCHEMA, False, str(root / "out"), "q")),
            ("parquet", open_sink(Connector("parquet", (("path", "q"),)), SCHEMA, False, str(root / "out"), "q")),
        ]
        if linked:
            how = QueueSettings(
                folder=root / "queues", durable=True, fsync="always" if syncs else "never", segment_bytes=3000
            )
            self.queue = Queue("q", queue_schema(SCHEMA, False), how)
            outputs.append(("link", LinkSink(QUERY, self.queue)))
        for _, output in outputs:
            output.syncs = syncs
        spec = RunSpec(App((), (QUERY,)), "run", str(root / "ck"), str(root.parent), syncs=syncs)
        self.sink = BatchSink(spec, {"q": outputs})
        self.sink.open()
        self.sink.spark_syncs = syncs if spark_syncs is None else spark_syncs

    def to_end(self, root: Path, rng: random.Random) -> None:
        StreamingQuery(root / "ck", self.sink, rng, TOTAL).run()
        self.sink.close()
        if self.queue is not None:
            self.queue.close()


def check(root: Path, linked: bool) -> None:
    lines = (root / "out" / "q.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert [int(line.split(",")[0]) for line in lines] == list(range(TOTAL))
    assert pq.read_table(root / "out" / "q")["a"].to_pylist() == list(range(TOTAL))
    if linked:
        with Queue("q", queue_schema(SCHEMA, False), QueueSettings(folder=root / "queues", durable=True)) as queue:
            rows = [v for b in queue.read(0, 1 << 30, 1 << 40).batches() for v in b.column(0).to_pylist()]
        assert rows == list(range(TOTAL))


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_synced_runs_go_on_after_every_power_cut(seed: int, linked: bool, tmp_path: Path) -> None:
    rng, root = random.Random(seed), tmp_path / "disk"
    root.mkdir()
    for _ in range(4):
        disk = PowerDisk(root, rng, cut_after=rng.randrange(900))
        try:
            with standing_in(disk):
                Run(root, True, linked).to_end(root, rng)
        except PowerCut:
            disk.restart()
        else:
            break
    Run(root, True, linked).to_end(root, rng)
    check(root, linked)


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_with_a_spark_that_does_not_sync_the_rows_are_right_or_its_state_is_lost(
    seed: int, linked: bool, tmp_path: Path
) -> None:
    rng, root = random.Random(2000 + seed), tmp_path / "disk"
    root.mkdir()
    with suppress(StateLost):  # the only error that is allowed
        for _ in range(3):
            disk = PowerDisk(root, rng, cut_after=rng.randrange(700))
            try:
                with standing_in(disk):
                    Run(root, True, linked, spark_syncs=False).to_end(root, rng)
                break
            except PowerCut:
                disk.restart()
        Run(root, True, linked, spark_syncs=False).to_end(root, rng)
        check(root, linked)


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_without_syncs_the_rows_are_right_or_an_error_is_clear(seed: int, linked: bool, tmp_path: Path) -> None:
    rng, root = random.Random(1000 + seed), tmp_path / "disk"
    root.mkdir()
    disk = PowerDisk(root, rng, cut_after=rng.randrange(700))
    try:
        with standing_in(disk):
            Run(root, False, linked).to_end(root, rng)
    except PowerCut:
        disk.restart()
    with suppress(*CLEAR):
        Run(root, False, linked).to_end(root, rng)
        check(root, linked)


def test_a_queue_older_than_the_sink_log_is_refused(tmp_path: Path) -> None:
    """In issue 15, a reader got [0..4, 10, 11, ...] and no error."""
    first = Run(tmp_path, True, True)
    first.sink(frame(0, 0, 5), 0)
    assert first.queue is not None
    first.queue.close()
    old = {path: path.read_bytes() for path in (tmp_path / "queues" / "q").glob("*.log")}
    second = Run(tmp_path, True, True)
    second.sink(frame(1, 5, 10), 1)
    second.sink.close()
    assert second.queue is not None
    second.queue.close()
    for path, data in old.items():
        path.write_bytes(data)
    with pytest.raises(SequenceGap, match=r"stream 'q'.*2 units were sent, but the queue holds 1.*Restore"):
        Run(tmp_path, True, True)


def test_a_batch_of_other_rows_under_a_recorded_number_is_refused(tmp_path: Path) -> None:
    run = Run(tmp_path, True, False)
    run.sink(frame(0, 0, 5), 0)
    run.sink.close()
    again = Run(tmp_path, True, False)
    again.sink(frame(0, 0, 5), 0)  # the same: skipped
    with pytest.raises(DamagedFile, match=r"sink/0\.json.*'s batch 0 ends at.*new --checkpoint"):
        again.sink(frame(0, 0, 7), 0)
    again.sink.close()
