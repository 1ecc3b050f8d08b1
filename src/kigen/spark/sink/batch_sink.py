"""Writes the blocks of each batch to their outputs, in the command's process, and records the batch in the sink log.

Invariant: an output holds exactly the batches that the sink log records, in order (kigen.spark.sink.sink_log). The
rename of the record is the commit, and latencies end there. A replayed batch is not written again
(kigen.spark.sink.replay_check). The rounds of an epoch come from the lanes themselves (kigen.spark.sink.round_server),
are recorded as they come (kigen.spark.sink.round_records), and Spark's batch only closes the epoch. Spark calls the
sink on its own thread, which may wait for a full queue indefinitely. Therefore the command shares only `lock` with it,
which is held briefly, and `interrupt` ends the wait.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from kigen.connectors import Sink
from kigen.durable import DamagedFile, sync_file
from kigen.spark.links.link_sink import LinkSink
from kigen.spark.operator import error_codec
from kigen.spark.operator.outbox import Encoders
from kigen.spark.operator.result_rows import Spool
from kigen.spark.rounds import round_log, wire
from kigen.spark.scratch import Committed, Scratch
from kigen.spark.session.start import quiet
from kigen.spark.sink import snapshot_files
from kigen.spark.sink.alignment import align
from kigen.spark.sink.epoch_progress import EpochProgress
from kigen.spark.sink.metrics import Metrics
from kigen.spark.sink.replay_check import StepNotes, checksums_of, ends_of, is_new_batch
from kigen.spark.sink.round_records import RoundRecord, RoundRecords
from kigen.spark.sink.round_server import DeliveredRound, RoundServer
from kigen.spark.sink.sink_log import SinkLog, SinkRecord, Snapshots
from kigen.spark.sink.spark_files import COMMITS, FOLDER, SparkFiles
from kigen.spark.spec import RunSpec

Outputs = dict[str, list[tuple[str, Sink]]]  # query -> (name of the output in the sink log, its sink)
_DURABLE_AT_ONCE = 8  # outputs that are made durable in parallel
_CLOSED = "the run has been stopped"
_NEW_CHECKPOINT = "Restore the checkpoint from a copy, or start from the beginning with a new --checkpoint directory"
ALL_ROUNDS = 1 << 62


class BatchSink:
    """Receives every batch of a run from Spark (`foreachBatch`)."""

    def __init__(self, spec: RunSpec, outputs: Outputs) -> None:
        self._spec, self.outputs = spec, outputs
        self.align()
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
        self._server: RoundServer | None = None
        self._epoch = EpochProgress(self.record.batch + 1)
        self._rounds = RoundRecords(spec.checkpoint, self.record.batch + 1)
        self._notes: StepNotes = []  # of the last step per task in the epoch that runs
        self._open_lanes = False  # whether lanes have begun the epoch
        self._due_at: dict[str, float] = {}  # output that commits at intervals -> when it is due

    def align(self) -> None:
        """Aligns Spark's logs with the sink log, before Spark starts."""
        can_cut_back = not any(isinstance(sink, LinkSink) for _, sink in self._sinks())
        align(Path(self._spec.checkpoint), can_cut_back)

    def open(self) -> None:
        """Opens every output and cuts it back to what the sink log and the records of rounds have."""
        self._spool.clear()
        positions = {**self.record.sink_positions, **self._restore_rounds()}
        for name, sink in self._sinks():
            sink.open(positions.get(name))

    def _restore_rounds(self) -> dict[str, Any]:
        """Counts the recorded rounds of an epoch that was not finished. Returns the sink positions after them."""
        checkpoint, positions = self._spec.checkpoint, dict[str, Any]()
        epoch = self._epoch.batch + 1
        logged = {
            int(path.stem.partition(".")[2]): len(round_log.read(path)[0])
            for path in round_log.lanes(checkpoint, epoch)
        }
        found = self._rounds.read(logged)
        for record in found:
            self._epoch.restore(record)
            positions |= record.positions
            notes = [(task, json.loads(note)) for task, note in record.notes]
            self._count(notes, record.out, record.at_us)
        if found:
            self._rounds.start(found, self._spec.syncs)
            self._committed_us = found[-1].at_us
        return positions

    def serve(self, spec: RunSpec) -> wire.Address:
        """Starts to take rounds from lanes and returns the address for them."""
        self._spec = spec
        key = wire.make_key(Path(spec.checkpoint) / wire.KEY_FILE)
        self._server = RoundServer(spec.listening_address("sink"), key, self._begin_lane, self._take_rounds)
        return self._server.address

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
        if self._server is not None:
            self._server.close()
        with self._writing:
            self._pool.shutdown()
            self._rounds.close()
            for _, sink in self._sinks():
                sink.close()

    def encoders(self) -> Encoders:
        """Returns what workers need to encode results for the outputs."""
        return {query: {name: sink.encoder() for name, sink in pairs} for query, pairs in self.outputs.items()}

    @property
    def finished(self) -> bool:
        """Whether every row is written and the epoch of the last rows is closed."""
        return not self._rounds.is_open and {task.name for task in self._spec.tasks} <= set(self.record.finished)

    @property
    def epoch_committed(self) -> bool:
        """Whether no epoch runs, and Spark has committed the last one."""
        commit = Path(self._spec.checkpoint) / FOLDER / COMMITS / str(self.record.batch)
        return not self._rounds.is_open and not self._open_lanes and commit.exists()

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
        if self.error is not None:
            raise self.error  # a round could not be written
        for row in rows:
            if row["kind"] == "error":
                raise error_codec.from_text(row["note"])
        notes = [(row["task"], json.loads(row["note"])) for row in rows if row["kind"] == "step"]
        chunks = {row["task"]: row["note"] for row in rows if row["kind"] == "chunk"}
        named = snapshot_files.with_batch(self.record.chunks, batch, chunks)
        in_rounds = any(row["kind"] == "lane" for row in rows)
        if is_new_batch(self.record, batch, None if in_rounds else notes, self._spec.checkpoint):
            self._require_rounds(rows)
            out = dict[str, int]()
            for row in rows:
                self._write_row(row, out)
            self._commit(batch, self._notes if in_rounds else notes, named, None if in_rounds else out)
        else:  # its results were written before a restart: only the state had to be rebuilt
            self._require_no_new_rounds(rows, batch)
            self._sync_spark_files()
            with self.lock:
                self.record.chunks = named
        self._open_lanes = False
        self._spool.drop([name for row in rows for name in _spooled(row)])
        self._events |= {task: note["next_event_us"] for task, note in notes}
        seq = max((row["seq"] for row in rows), default=-1)
        self.scratch.set_committed(Committed(seq, self._committed_us, self._events))

    def _write_row(self, row: dict[str, Any], out: dict[str, int], lacks: Callable[[str], bool] | None = None) -> None:
        """Writes the results in a row to the outputs that lack them, and counts them."""
        query = row["query"]
        if row["kind"] == "lines":
            table = self._spool.unpack(row["payload"], row["note"])
            out[query] = out.get(query, 0) + table.num_rows
            for name, sink in self.outputs.get(query, ()):
                if lacks is None or lacks(name):
                    sink.write(table)
        elif row["kind"] == "files":
            note = json.loads(row["note"])
            out[query] = out.get(query, 0) + int(note["rows"])
            self._write_files(query, note["files"], note["block"], lacks)

    def _write_files(
        self, query: str, files: dict[str, str], block: str | None, lacks: Callable[[str], bool] | None
    ) -> None:
        """Writes a large result: each output adopts its own file. Outputs that take no files get the block."""
        table = None if block is None else self._spool.unpack(None, block)
        for name, sink in self.outputs.get(query, ()):
            if lacks is not None and not lacks(name):
                continue
            if name in files:
                sink.adopt(str(self._spool.path(files[name])))
            else:
                assert table is not None, f"no results for {name}"
                sink.write(table)

    def _commit(self, batch: int, notes: StepNotes, named: Snapshots, out: dict[str, int] | None) -> None:
        """Commits a batch. `out` None: its rounds are counted already."""
        # Before a queue shows rows to other nodes: a batch whose offset is lost would have other rows when repeated.
        self._sync_spark_files()
        reached = self._sync_outputs(self._sinks())
        if out is not None:
            # Latencies end with the record that carries them. They exclude the few milliseconds that writing it takes.
            self._count(notes, out, time.time_ns() // 1000)
        with self.lock:
            record = self._next_record(batch, notes, named, reached)
        self._log.append(record, self._spec.syncs)
        with self.lock:
            self.record = record
        self._rounds.drop()
        self._epoch, self._rounds = EpochProgress(batch + 1), RoundRecords(self._spec.checkpoint, batch + 1)
        self._notes = []
        snapshot_files.remove_unneeded(self._spec.checkpoint, named)
        self._committed(notes)

    def _committed(self, notes: StepNotes) -> None:
        """Reports to measurements and other nodes how far the run is."""
        self.commits.append((time.monotonic(), max((m.arrived for m in self.metrics.queries.values()), default=0)))
        self._kept |= {task: note["kept"] for task, note in notes if note["kept"]}
        if self.on_commit is not None:
            positions = self.record.positions
            self.on_commit(self._oldest_needed(), {s: int(at["index"]) for s, at in positions.items() if "index" in at})

    def _count(self, notes: StepNotes, out: dict[str, int], at_us: int) -> None:
        """Adds a batch or some rounds to the counters and positions. Their results are durable since `at_us`."""
        app, record = self._spec.app, self.record
        self._committed_us = at_us
        with self.lock:
            finished, positions, skipped = set(record.finished), dict(record.positions), dict(record.skipped)
            for query, rows in out.items():
                if query in self.metrics.queries:
                    self.metrics.queries[query].out += rows
            for task, note in notes:
                self.metrics.step(app, note)
                positions |= note["positions"]
                finished |= {task} if note["finished"] else set()
                for stream, (_, errors) in note["skipped"].items():
                    skipped[stream] = (skipped.get(stream, []) + errors)[:5]
                self.metrics.committed(app, note, at_us)
            admitted = {note["admitted_us"] for _, note in notes}  # one time per round
            self.metrics.batches += max(1, len(admitted))
            self.metrics.wall_us = self.wall_us
            for admitted_us in admitted:
                self.metrics.batch.add(at_us - admitted_us)
            record.finished, record.positions, record.skipped = sorted(finished), positions, skipped

    def _next_record(
        self, batch: int, notes: StepNotes, named: Snapshots, sink_positions: dict[str, Any]
    ) -> SinkRecord:
        record = self.record
        return SinkRecord(
            batch,
            sink_positions,
            self.metrics.to_json(),
            record.finished,
            record.positions,
            named,
            record.skipped,
            ends_of(notes),
            checksums_of(notes),
        )

    # --- rounds ----------------------------------------------------------------------------------------------------

    def _begin_lane(self, epoch: int, lane: int) -> int:
        """Returns the last round of the lane that all its outputs have. The sink log has whole epochs."""
        with self._writing:
            self._open_lanes = True
            return ALL_ROUNDS if epoch - 1 <= self.record.batch else self._epoch.lane(lane).has

    def _take_rounds(self, rounds: list[DeliveredRound]) -> None:
        """Writes a group of rounds and commits them together."""
        with self._writing:
            if self._closed:
                raise RuntimeError(_CLOSED)
            try:
                self._write_rounds([r for r in rounds if r.epoch - 1 > self.record.batch])
            except Exception as error:
                if not self._closed:
                    self.error = error
                raise

    def _write_rounds(self, rounds: list[DeliveredRound]) -> None:
        # Two attempts of a lane may have sent the same round.
        distinct = {(r.lane, r.number): r for r in reversed(rounds) if self._epoch.is_new(r.lane, r.number)}
        fresh = [distinct[key] for key in sorted(distinct)]
        if not fresh and not self._is_due():
            return
        if self._spec.syncs:
            for lane in {r.lane for r in fresh}:  # before any result of the rounds is visible
                sync_file(round_log.path_of(self._spec.checkpoint, self._epoch.batch + 1, lane))
        counted: dict[int, tuple[list[tuple[str, str]], dict[str, int]]] = {}
        for entry in fresh:
            assert entry.number == self._epoch.lane(entry.lane).written + 1, f"round {entry.number} came too early"
            known = entry.number <= self._epoch.lane(entry.lane).counted  # by an earlier process
            notes, out = ([], {}) if known else counted.setdefault(entry.lane, ([], {}))
            for row in entry.rows:
                self._write_row(row, out, partial(self._epoch.lacks, entry.number))
                if row["kind"] == "step":
                    notes.append((row["task"], row["note"]))
            self._epoch.lane(entry.lane).written = entry.number
            self._end_round(entry)
        self._record_rounds(counted)
        self._spool.drop([name for entry in fresh for row in entry.rows for name in _spooled(row)])

    def _end_round(self, entry: DeliveredRound) -> None:
        """Ends the round in each output that got rows of it."""
        for query in {row["query"] for row in entry.rows if row["kind"] in ("lines", "files")}:
            for name, sink in self.outputs.get(query, ()):
                if self._epoch.lacks(entry.number, name):
                    sink.end_round()
                    self._epoch.wrote(entry.lane, entry.number, name)
                    self._due_at.setdefault(name, time.monotonic() + sink.commit_interval_us / 1e6)

    def _is_due(self) -> bool:
        now = time.monotonic()
        return any(self._due_at.get(name, now) <= now for name in self._epoch.waiting & set(self._by_rounds()))

    def _by_rounds(self) -> dict[str, Sink]:
        """Returns the outputs that commit while an epoch runs."""
        return {name: sink for name, sink in self._sinks() if not sink.commits_per_epoch}

    def _record_rounds(self, counted: dict[int, tuple[list[tuple[str, str]], dict[str, int]]]) -> None:
        """Makes the outputs durable that are due, and records what they have."""
        now = time.monotonic()
        outputs, waiting = self._by_rounds(), self._epoch.waiting
        due = [(n, outputs[n]) for n in sorted(waiting & set(outputs)) if self._due_at.get(n, now) <= now]
        positions = self._sync_outputs(due)
        rounds = self._epoch.committed([name for name, _ in due])
        for name, _ in due:
            self._due_at.pop(name, None)
        at_us = time.time_ns() // 1000
        records = []
        for lane in sorted({*counted, *rounds}):
            notes, out = counted.get(lane, ([], {}))
            mine, progress = rounds.get(lane, {}), self._epoch.lane(lane)
            reached = {name: positions[name] for name in mine}
            records.append(RoundRecord(lane, progress.written, progress.has, at_us, reached, mine, notes, out))
        if not records:
            return
        if not self._rounds.is_open:
            self._sync_spark_files()  # inputs of the last epoch are trimmed from now on
            self._rounds.start([], self._spec.syncs)
        self._rounds.append(records, self._spec.syncs)
        for record in records:
            steps = [(task, json.loads(note)) for task, note in record.notes]
            if steps or record.out:
                self._count(steps, record.out, at_us)
            latest = dict(self._notes) | dict(steps)
            self._notes = list(latest.items())
        self._committed(self._notes)

    def _require_rounds(self, rows: list[dict[str, Any]]) -> None:
        """Checks that all rounds of each lane have come. A lane waits for that before it ends its epoch."""
        for row in rows:
            if row["kind"] == "lane":
                about = json.loads(row["note"])
                written = self._epoch.lane(about["lane"]).written
                assert written == about["rounds"], f"lane {about['lane']} made {about['rounds']} rounds, {written} came"

    def _require_no_new_rounds(self, rows: list[dict[str, Any]], batch: int) -> None:
        """Raises DamagedFile if an epoch in the sink log got other rounds when it was made again."""
        for row in rows:
            if row["kind"] == "lane" and json.loads(row["note"])["rounds"] != ALL_ROUNDS:
                path = round_log.path_of(self._spec.checkpoint, batch + 1, json.loads(row["note"])["lane"])
                raise DamagedFile(
                    str(path), "it has lost its end, though its epoch is in the sink log", _NEW_CHECKPOINT
                )

    # --- files -----------------------------------------------------------------------------------------------------

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

    def _sync_outputs(self, outputs: list[tuple[str, Sink]]) -> dict[str, Any]:
        """Makes outputs durable, in parallel since disks are slow, and returns the sink positions."""
        if len(outputs) == 1:
            return {outputs[0][0]: outputs[0][1].commit()}
        positions = self._pool.map(lambda pair: pair[1].commit(), outputs)
        return dict(zip([name for name, _ in outputs], positions, strict=True))

    def _sinks(self) -> list[tuple[str, Sink]]:
        return [pair for pairs in self.outputs.values() for pair in pairs]


def _spooled(row: dict[str, Any]) -> list[str]:
    """Returns the names of the spool files that a row refers to."""
    if row["kind"] == "files":
        note = json.loads(row["note"])
        return [name for name in (*note["files"].values(), note["block"]) if name is not None]
    return [row["note"]] if row["kind"] == "lines" and row["note"] is not None else []
