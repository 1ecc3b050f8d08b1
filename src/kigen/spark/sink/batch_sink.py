"""The sink: takes each batch's blocks in the command's own process, writes them to their outputs, and records it in the
sink log.

Invariant: an output holds exactly the batches that the sink log records, in order (kigen.spark.sink.sink_log). The
record's rename is the commit: latencies end there. A batch with the number of a record is skipped only if it ends where
the record says. Called by Spark on a thread of its own, which may wait for a full queue as long as it lasts. So the
command shares with it `lock` only, which is held for moments, and `interrupt` ends the waiting.
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

from kigen.connectors import InputError, Sink
from kigen.durable import DamagedFile, remove
from kigen.spark.links.link_sink import LinkSink
from kigen.spark.operator import error_codec
from kigen.spark.operator.outbox import Encoders
from kigen.spark.operator.result_rows import Spool
from kigen.spark.scratch import Committed, Scratch
from kigen.spark.session.start import RETAINED_BATCHES, quiet
from kigen.spark.sink.alignment import align
from kigen.spark.sink.metrics import Metrics
from kigen.spark.sink.sink_log import Record, SinkLog, Snapshots
from kigen.spark.sink.spark_files import SparkFiles
from kigen.spark.spec import RunSpec

Outputs = dict[str, list[tuple[str, Sink]]]  # query -> (the output's name in the log, where it goes)
_DURABLE_AT_ONCE = 8  # outputs
_CLOSED = "the run has been stopped"
_OLD_FILE = "Put the old file back, or start from the beginning with a new --checkpoint directory"


class BatchSink:
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
        self.spark_syncs = False  # Spark makes its own files durable
        self._committed_us = 0
        self.lock = threading.Lock()  # of `metrics` and `record`
        self._writing = threading.Lock()  # held as long as a batch is written
        self._pool = ThreadPoolExecutor(_DURABLE_AT_ONCE, thread_name_prefix="kigen-sink")
        self.error: Exception | None = None
        # Of each stream read by number: what a replay may still ask for, and how far it is worked off.
        self.on_commit: Callable[[dict[str, int], dict[str, int]], None] | None = None
        self._kept: dict[str, dict[str, int]] = {}
        self.commits: deque[tuple[float, int]] = deque(
            maxlen=10_000
        )  # monotonic time, tuples in so far: for measurements
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

    def interrupt(self) -> None:
        """The run is to end: a batch that waits for room in a queue is given up, and made again by the next run."""
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
        """What workers need to know of the outputs."""
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
        named = _remember(
            self.record.chunks, batch, {row["task"]: row["note"] for row in rows if row["kind"] == "chunk"}
        )
        if self._is_new(batch, notes):
            for row in rows:
                if row["kind"] == "lines":
                    self._lines(row["query"], self._spool.take(row["payload"], row["note"]))
                elif row["kind"] == "files":
                    self._files(row["query"], **json.loads(row["note"]))
            self._commit(batch, notes, named)
        else:  # written before a restart: only the state had to be made again
            if self._spec.syncs and not self.spark_syncs:
                self._spark_files.sync(self._pool)
            with self.lock:
                self.record.chunks = named
        self._spool.drop([name for row in rows for name in _spooled(row)])
        self._events |= {task: note["next_event_us"] for task, note in notes}
        seq = max((row["seq"] for row in rows), default=-1)
        self.scratch.set_committed(Committed(seq, self._committed_us, self._events))

    def _is_new(self, batch: int, notes: list[tuple[str, dict[str, Any]]]) -> bool:
        """Whether the batch is not in the outputs yet. Raises DamagedFile if it is neither the next, nor the very one
        that is recorded."""
        record = self.record
        if batch == record.batch + 1:
            return True
        ends = {task: note["positions"] for task, note in notes}
        if batch == record.batch and (record.ends is None or _same(record.ends, ends)):
            self._same_input(notes)
            return False
        where = f"{self._spec.checkpoint}/sink/{record.batch}.json"
        recorded = f"it says that batch {record.batch} ended at {json.dumps(record.ends or record.positions)}"
        found = (
            f"{recorded}, Spark's batch {batch} ends at {json.dumps(ends)}: the two logs are not of one run, or "
            "one lost its end"
        )
        raise DamagedFile(
            where,
            found,
            "Restore the checkpoint from a copy, or start from the beginning with a new --checkpoint directory",
        )

    def _same_input(self, notes: list[tuple[str, dict[str, Any]]]) -> None:
        """The rows of a recorded batch are in the outputs: state must be made of the same ones. Raises InputError."""
        for stream, found in _checksums(notes).items():
            for recorded, read in zip(self.record.checksums.get(stream, []), found, strict=False):
                if recorded != read:
                    file, place = recorded[:2]
                    changed = f"has changed since batch {self.record.batch} read {place} of stream '{stream}'"
                    raise InputError(f"{changed}, whose results are written. {_OLD_FILE}", file)

    def _lines(self, query: str, table: pa.Table) -> None:
        self._count_out(query, table.num_rows)
        for _, sink in self.outputs.get(query, ()):
            sink.write(table)

    def _files(self, query: str, rows: int, files: dict[str, str], block: str | None) -> None:
        """A large result: each output takes its own file over; those that take none are given the block."""
        self._count_out(query, rows)
        table = None if block is None else self._spool.take(None, block)
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

    def _commit(self, batch: int, notes: list[tuple[str, dict[str, Any]]], named: Snapshots) -> None:
        if (
            self._spec.syncs and not self.spark_syncs
        ):  # before a queue shows rows to others: a batch whose offset is lost would be another one when made again
            self._spark_files.sync(self._pool)
        marks = self._marks()
        with self.lock:
            record = self._next_record(batch, notes, named, marks)
        self._log.append(record, self._spec.syncs)
        with self.lock:
            self.record = record
        self.commits.append((time.monotonic(), max((m.arrived for m in self.metrics.queries.values()), default=0)))
        self._collect(named)
        self._kept |= {task: note["kept"] for task, note in notes if note["kept"]}
        if self.on_commit is not None:
            self.on_commit(self._oldest(), {s: int(at["index"]) for s, at in record.positions.items() if "index" in at})

    def _next_record(
        self, batch: int, notes: list[tuple[str, dict[str, Any]]], named: Snapshots, marks: dict[str, Any]
    ) -> Record:
        app, record = self._spec.app, self.record
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
        ends = {task: note["positions"] for task, note in notes}
        return Record(
            batch, marks, self.metrics.to_json(), sorted(finished), positions, named, skipped, ends, _checksums(notes)
        )

    def _oldest(self) -> dict[str, int]:
        """Of streams that all their tasks have read of since the start: what no replay of any of them goes back
        behind."""
        readers: dict[str, list[str]] = {}
        for task in self._spec.tasks:
            for stream in task.streams:
                readers.setdefault(stream, []).append(task.name)
        known = {s: tasks for s, tasks in readers.items() if all(s in self._kept.get(t, {}) for t in tasks)}
        return {s: min(self._kept[t][s] for t in tasks) for s, tasks in known.items()}

    def _marks(self) -> dict[str, Any]:
        """Make every output durable, several at once: most of the time goes to waiting for the disk."""
        names = [name for name, _ in self._sinks()]
        return dict(zip(names, self._pool.map(lambda pair: pair[1].commit(), self._sinks()), strict=True))

    def _collect(self, named: Snapshots) -> None:
        """Delete snapshots that no retained state names. No worker is writing one: all rows of the batch are here."""
        needed = {name for versions in named.values() for _, name in versions}
        directory = Path(self._spec.checkpoint) / "chunks"
        if directory.is_dir():
            for path in directory.iterdir():
                if path.name not in needed:
                    remove(path)

    def _sinks(self) -> list[tuple[str, Sink]]:
        return [pair for pairs in self.outputs.values() for pair in pairs]


def _checksums(notes: list[tuple[str, dict[str, Any]]]) -> dict[str, list[Any]]:
    """Tasks that read the same stream read the same ranges of a file."""
    found: dict[str, list[Any]] = {}
    for _, note in notes:
        found |= json.loads(json.dumps(note.get("checksums", {})))
    return found


def _same(recorded: dict[str, dict[str, Any]], found: dict[str, dict[str, Any]]) -> bool:
    """As JSON gives them back."""
    return bool(json.loads(json.dumps(recorded)) == json.loads(json.dumps(found)))


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
