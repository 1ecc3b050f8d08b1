"""The sink: takes each batch's blocks in the command's own process, writes them to their outputs, and records it in the sink log.

Invariant: an output holds exactly the batches that the sink log records, in order (kigen.spark.sink_log). The record's rename is the
commit: latencies end there. Called by Spark on a thread of its own; `lock` keeps it and the command apart.
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
from kigen.spark import faults
from kigen.spark.blocks import Spool
from kigen.spark.metrics import Metrics
from kigen.spark.outbox import Encoders
from kigen.spark.scratch import Committed, Scratch
from kigen.spark.session import RETAINED_BATCHES, quiet
from kigen.spark.sink_log import Record, SinkLog, Snapshots
from kigen.spark.spec import RunSpec

Outputs = dict[str, list[tuple[str, Sink]]]  # query -> (the output's name in the log, where it goes)
_DURABLE_AT_ONCE = 8  # outputs
_CLOSED = "the run has been stopped"


class BatchSink:
    def __init__(self, spec: RunSpec, outputs: Outputs) -> None:
        self._spec, self._outputs = spec, outputs
        self._log, self.scratch = SinkLog(spec.checkpoint), Scratch(spec.scratch)
        self._spool = Spool(spec.checkpoint)
        self._events: dict[str, int | None] = {}
        self._closed = False
        self._committed_us = 0
        self.lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_DURABLE_AT_ONCE, thread_name_prefix="kigen-sink")
        self.error: Exception | None = None
        # Of each stream read by number: what a replay may still ask for, and how far it is worked off.
        self.on_commit: Callable[[dict[str, int], dict[str, int]], None] | None = None
        self._kept: dict[str, dict[str, int]] = {}
        self.commits: deque[tuple[float, int]] = deque(maxlen=10_000)  # monotonic time, tuples in so far: for measurements
        last = self._log.last()
        self.record = last or Record(-1, {}, Metrics.fresh(spec.app).to_json())
        self.metrics = Metrics.from_json(self.record.metrics)
        self._before_us, self._began = self.metrics.wall_us, time.monotonic()

    def open(self) -> None:
        """Cut every output back to what the log records."""
        self._spool.clear()
        for name, sink in self._sinks():
            sink.open(self.record.marks.get(name))

    def start_clock(self) -> None:
        """Spark is up: the time of the run counts from here, after that of earlier runs on the checkpoint."""
        self._began = time.monotonic()

    @property
    def wall_us(self) -> int:
        return self._before_us + round((time.monotonic() - self._began) * 1e6)

    def close(self) -> None:
        with self.lock:
            self._closed = True
            self._pool.shutdown()
            for _, sink in self._sinks():
                sink.close()

    def encoders(self) -> Encoders:
        """What workers need to know of the outputs."""
        return {query: {name: sink.encoder() for name, sink in pairs} for query, pairs in self._outputs.items()}

    @property
    def finished(self) -> bool:
        return {task.name for task in self._spec.tasks} <= set(self.record.finished)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        with quiet():
            rows = frame.toArrow().to_pylist()
        with self.lock:
            if self._closed:
                raise RuntimeError(_CLOSED)
            try:
                self._write(rows, batch)
            except Exception as error:
                self.error = error
                raise

    def _write(self, rows: list[dict[str, Any]], batch: int) -> None:
        for row in rows:
            if row["kind"] == "error":
                raise faults.from_text(row["note"])
        notes = [(row["task"], json.loads(row["note"])) for row in rows if row["kind"] == "step"]
        named = _remember(self.record.chunks, batch, {row["task"]: row["note"] for row in rows if row["kind"] == "chunk"})
        if batch > self.record.batch:
            for row in rows:
                if row["kind"] == "lines":
                    self._lines(row["query"], self._spool.take(row["payload"], row["note"]))
                elif row["kind"] == "files":
                    self._files(row["query"], **json.loads(row["note"]))
            self._commit(batch, notes, named)
        else:  # written before a restart: only the state had to be made again
            self.record.chunks = named
        self._spool.drop([name for row in rows for name in _spooled(row)])
        self._events |= {task: note["next_event_us"] for task, note in notes}
        seq = max((row["seq"] for row in rows), default=-1)
        self.scratch.set_committed(Committed(seq, self._committed_us, self._events))

    def _lines(self, query: str, table: pa.Table) -> None:
        if query in self.metrics.queries:
            self.metrics.queries[query].out += table.num_rows
        for _, sink in self._outputs.get(query, ()):
            sink.write(table)

    def _files(self, query: str, rows: int, files: dict[str, str], block: str | None) -> None:
        """A large result: each output takes its own file over; those that take none are given the block."""
        if query in self.metrics.queries:
            self.metrics.queries[query].out += rows
        table = None if block is None else self._spool.take(None, block)
        for name, sink in self._outputs.get(query, ()):
            if name in files:
                sink.adopt(str(self._spool.path(files[name])))
            else:
                assert table is not None, f"no results for {name}"
                sink.write(table)

    def _commit(self, batch: int, notes: list[tuple[str, dict[str, Any]]], named: Snapshots) -> None:
        app, record = self._spec.app, self.record
        marks = self._marks()
        finished, positions, skipped = set(record.finished), dict(record.positions), dict(record.skipped)
        for task, note in notes:
            self.metrics.step(app, note)
            positions |= note["positions"]
            finished |= {task} if note["finished"] else set()
            for stream, (_, errors) in note["skipped"].items():
                skipped[stream] = (skipped.get(stream, []) + errors)[:5]
        # Latencies end with the record that carries them: its own writing, some milliseconds, is not in them.
        now_us = self._committed_us = time.time_ns() // 1000
        for _, note in notes:
            self.metrics.committed(app, note, now_us)
        self.metrics.batches += 1
        self.metrics.wall_us = self.wall_us
        if notes:
            self.metrics.batch.add(now_us - min(note["admitted_us"] for _, note in notes))
        self.record = Record(batch, marks, self.metrics.to_json(), sorted(finished), positions, named, skipped)
        self._log.append(self.record)
        self.commits.append((time.monotonic(), max((m.arrived for m in self.metrics.queries.values()), default=0)))
        self._collect(named)
        self._kept |= {task: note["kept"] for task, note in notes if note["kept"]}
        if self.on_commit is not None:
            self.on_commit(self._oldest(), {s: int(at["index"]) for s, at in positions.items() if "index" in at})

    def _oldest(self) -> dict[str, int]:
        """Of streams that all their tasks have read of since the start: what no replay of any of them goes back behind."""
        readers: dict[str, list[str]] = {}
        for task in self._spec.tasks:
            for stream in task.streams:
                readers.setdefault(stream, []).append(task.name)
        known = {s: tasks for s, tasks in readers.items() if all(s in self._kept.get(t, {}) for t in tasks)}
        return {s: min(self._kept[t][s] for t in tasks) for s, tasks in known.items()}

    def _marks(self) -> dict[str, Any]:
        """Make every output durable, several at once: most of the time goes to waiting for the disk."""
        names = [name for name, _ in self._sinks()]
        return dict(zip(names, self._pool.map(lambda pair: pair[1].mark(), self._sinks()), strict=True))

    def _collect(self, named: Snapshots) -> None:
        """Delete snapshots that no retained state names. No worker is writing one: all rows of the batch are here."""
        needed = {name for versions in named.values() for _, name in versions}
        directory = Path(self._spec.checkpoint) / "chunks"
        if directory.is_dir():
            for path in directory.iterdir():
                if path.name not in needed:
                    path.unlink(missing_ok=True)

    def _sinks(self) -> list[tuple[str, Sink]]:
        return [pair for pairs in self._outputs.values() for pair in pairs]


def _spooled(row: dict[str, Any]) -> list[str]:
    """The files of the spool that a row names."""
    if row["kind"] == "files":
        note = json.loads(row["note"])
        return [name for name in (*note["files"].values(), note["block"]) if name is not None]
    return [row["note"]] if row["kind"] == "lines" and row["note"] is not None else []


def _remember(before: Snapshots, batch: int, chunks: dict[str, str | None]) -> Snapshots:
    """Which snapshot each task's state names since which batch: those in force in the last RETAINED_BATCHES batches."""
    named = {task: [(b, name) for b, name in versions] for task, versions in before.items()}
    for task, name in chunks.items():
        versions = named.setdefault(task, [])
        if not versions or versions[-1][1] != name:
            versions.append((batch, name))
    for versions in named.values():
        while len(versions) > 1 and versions[1][0] <= batch - RETAINED_BATCHES:
            versions.pop(0)
    return named
