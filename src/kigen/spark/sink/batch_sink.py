"""Writes the blocks of each batch to their outputs, in the command's process, and records the batch in the sink log.

Invariant: an output holds exactly the batches that the sink log records, in order (kigen.spark.sink.sink_log). The
rename of the record is the commit, and latencies end there. A replayed batch is not written again
(kigen.spark.sink.replay_check). Spark calls the sink on its own thread, which may wait for a full queue indefinitely.
Therefore the command shares only `lock` with it, which is held briefly, and `interrupt` ends the wait.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from kigen.connectors import Sink
from kigen.spark.links.link_sink import LinkSink
from kigen.spark.operator import error_codec
from kigen.spark.operator.outbox import Encoders
from kigen.spark.operator.result_rows import Spool
from kigen.spark.scratch import Committed, Scratch
from kigen.spark.session.start import quiet
from kigen.spark.sink import snapshot_files
from kigen.spark.sink.alignment import align
from kigen.spark.sink.metrics import Metrics
from kigen.spark.sink.replay_check import StepNotes, checksums_of, ends_of, is_new_batch
from kigen.spark.sink.sink_log import SinkLog, SinkRecord, Snapshots
from kigen.spark.sink.spark_files import SparkFiles
from kigen.spark.spec import RunSpec

Outputs = dict[str, list[tuple[str, Sink]]]  # query -> (name of the output in the sink log, its sink)
_DURABLE_AT_ONCE = 8  # outputs that are made durable in parallel
_CLOSED = "the run has been stopped"


class BatchSink:
    """Receives every batch of a run from Spark (`foreachBatch`)."""

    def __init__(self, spec: RunSpec, outputs: Outputs) -> None:
        self._spec, self.outputs = spec, outputs
        align(
            Path(spec.checkpoint),
            can_cut_back=not any(isinstance(sink, LinkSink) for pairs in outputs.values() for _, sink in pairs),
        )
        self._log, self.scratch = SinkLog(spec.checkpoint), Scratch(spec.scratch)
        self._spark_files = SparkFiles(spec.checkpoint)
        self._spool = Spool(spec.checkpoint)
        self._events: dict[str, int | None] = {}
        self._closed = False
        self.spark_syncs = False  # whether Spark itself makes its files durable
        self._committed_us = 0
        self.lock = threading.Lock()  # guards `metrics` and `record`
        self._writing = threading.Lock()  # held while a batch is written
        self._pool = ThreadPoolExecutor(_DURABLE_AT_ONCE, thread_name_prefix="kigen-sink")
        self.error: Exception | None = None
        # Called with two offsets per stream that is read by offset: the first that a replay may need, the committed
        # one.
        self.on_commit: Callable[[dict[str, int], dict[str, int]], None] | None = None
        self._kept: dict[str, dict[str, int]] = {}
        # For measurements: monotonic time of the commit, tuples read so far.
        self.commits: deque[tuple[float, int]] = deque(maxlen=10_000)
        last = self._log.last()
        self.record = last or SinkRecord(-1, {}, Metrics.fresh(spec.app).to_json())
        self.metrics = Metrics.from_json(self.record.metrics)
        self._before_us, self._began = self.metrics.wall_us, time.monotonic()

    def open(self) -> None:
        """Opens every output and cuts it back to what the sink log records."""
        self._spool.clear()
        for name, sink in self._sinks():
            sink.open(self.record.sink_positions.get(name))

    def start_clock(self) -> None:
        """Starts to count the wall time of this run: Spark is up. Earlier runs on the checkpoint are added."""
        self._began = time.monotonic()

    @property
    def wall_us(self) -> int:
        return self._before_us + round((time.monotonic() - self._began) * 1e6)

    def interrupt(self) -> None:
        """Abandons a batch that waits for room in a queue. The next run repeats it."""
        self._closed = True
        for _, sink in self._sinks():
            sink.interrupt()

    def close(self) -> None:
        self.interrupt()
        with self._writing:
            self._pool.shutdown()
            for _, sink in self._sinks():
                sink.close()

    def encoders(self) -> Encoders:
        """Returns what workers need to encode results for the outputs."""
        return {query: {name: sink.encoder() for name, sink in pairs} for query, pairs in self.outputs.items()}

    @property
    def finished(self) -> bool:
        return {task.name for task in self._spec.tasks} <= set(self.record.finished)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        with quiet():
            rows = frame.toArrow().to_pylist()
        with self._writing:
            if self._closed:
                raise RuntimeError(_CLOSED)
            try:
                self._write(rows, batch)
            except Exception as error:
                if not self._closed:
                    self.error = error
                raise

    def _write(self, rows: list[dict[str, Any]], batch: int) -> None:
        for row in rows:
            if row["kind"] == "error":
                raise error_codec.from_text(row["note"])
        notes = [(row["task"], json.loads(row["note"])) for row in rows if row["kind"] == "step"]
        chunks = {row["task"]: row["note"] for row in rows if row["kind"] == "chunk"}
        named = snapshot_files.with_batch(self.record.chunks, batch, chunks)
        if is_new_batch(self.record, batch, notes, self._spec.checkpoint):
            for row in rows:
                if row["kind"] == "lines":
                    self._lines(row["query"], self._spool.unpack(row["payload"], row["note"]))
                elif row["kind"] == "files":
                    self._files(row["query"], **json.loads(row["note"]))
            self._commit(batch, notes, named)
        else:  # its results were written before a restart: only the state had to be rebuilt
            self._sync_spark_files()
            with self.lock:
                self.record.chunks = named
        self._spool.drop([name for row in rows for name in _spooled(row)])
        self._events |= {task: note["next_event_us"] for task, note in notes}
        seq = max((row["seq"] for row in rows), default=-1)
        self.scratch.set_committed(Committed(seq, self._committed_us, self._events))

    def _lines(self, query: str, table: pa.Table) -> None:
        self._count_out(query, table.num_rows)
        for _, sink in self.outputs.get(query, ()):
            sink.write(table)

    def _files(self, query: str, rows: int, files: dict[str, str], block: str | None) -> None:
        """Writes a large result: each output adopts its own file. Outputs that take no files get the block."""
        self._count_out(query, rows)
        table = None if block is None else self._spool.unpack(None, block)
        for name, sink in self.outputs.get(query, ()):
            if name in files:
                sink.adopt(str(self._spool.path(files[name])))
            else:
                assert table is not None, f"no results for {name}"
                sink.write(table)

    def _count_out(self, query: str, rows: int) -> None:
        with self.lock:
            if query in self.metrics.queries:
                self.metrics.queries[query].out += rows

    def _commit(self, batch: int, notes: StepNotes, named: Snapshots) -> None:
        # Before a queue shows rows to other nodes: a batch whose offset is lost would have other rows when repeated.
        self._sync_spark_files()
        reached = self._sync_outputs()
        with self.lock:
            record = self._next_record(batch, notes, named, reached)
        self._log.append(record, self._spec.syncs)
        with self.lock:
            self.record = record
        self.commits.append((time.monotonic(), max((m.arrived for m in self.metrics.queries.values()), default=0)))
        snapshot_files.remove_unneeded(self._spec.checkpoint, named)
        self._kept |= {task: note["kept"] for task, note in notes if note["kept"]}
        if self.on_commit is not None:
            self.on_commit(
                self._oldest_needed(), {s: int(at["index"]) for s, at in record.positions.items() if "index" in at}
            )

    def _next_record(
        self, batch: int, notes: StepNotes, named: Snapshots, sink_positions: dict[str, Any]
    ) -> SinkRecord:
        app, record = self._spec.app, self.record
        finished, positions, skipped = set(record.finished), dict(record.positions), dict(record.skipped)
        for task, note in notes:
            self.metrics.step(app, note)
            positions |= note["positions"]
            finished |= {task} if note["finished"] else set()
            for stream, (_, errors) in note["skipped"].items():
                skipped[stream] = (skipped.get(stream, []) + errors)[:5]
        # Latencies end with the record that carries them. They exclude the few milliseconds that writing it takes.
        now_us = self._committed_us = time.time_ns() // 1000
        for _, note in notes:
            self.metrics.committed(app, note, now_us)
        self.metrics.batches += 1
        self.metrics.wall_us = self.wall_us
        if notes:
            self.metrics.batch.add(now_us - min(note["admitted_us"] for _, note in notes))
        return SinkRecord(
            batch,
            sink_positions,
            self.metrics.to_json(),
            sorted(finished),
            positions,
            named,
            skipped,
            ends_of(notes),
            checksums_of(notes),
        )

    def _oldest_needed(self) -> dict[str, int]:
        """Returns, per stream, the offset before which no replay reads. Leaves out streams that a task has not read."""
        readers: dict[str, list[str]] = {}
        for task in self._spec.tasks:
            for stream in task.streams:
                readers.setdefault(stream, []).append(task.name)
        known = {s: tasks for s, tasks in readers.items() if all(s in self._kept.get(t, {}) for t in tasks)}
        return {s: min(self._kept[t][s] for t in tasks) for s, tasks in known.items()}

    def _sync_spark_files(self) -> None:
        if self._spec.syncs and not self.spark_syncs:
            self._spark_files.sync(self._pool)

    def _sync_outputs(self) -> dict[str, Any]:
        """Makes every output durable, in parallel since disks are slow, and returns the sink positions."""
        names = [name for name, _ in self._sinks()]
        return dict(zip(names, self._pool.map(lambda pair: pair[1].commit(), self._sinks()), strict=True))

    def _sinks(self) -> list[tuple[str, Sink]]:
        return [pair for pairs in self.outputs.values() for pair in pairs]


def _spooled(row: dict[str, Any]) -> list[str]:
    """Returns the names of the spool files that a row refers to."""
    if row["kind"] == "files":
        note = json.loads(row["note"])
        return [name for name in (*note["files"].values(), note["block"]) if name is not None]
    return [row["note"]] if row["kind"] == "lines" and row["note"] is not None else []
