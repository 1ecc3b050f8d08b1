"""Writes the blocks of each batch to their outputs, in the command's process, and records the batch in the sink log.

Invariant: an output holds exactly the batches that the sink log records, in order (kigen.spark.sink.sink_log). The
rename of the record is the commit, and latencies end there, or when an output commits that does so at intervals
(kigen.spark.sink.held_latencies). A replayed batch is not written again
(kigen.spark.sink.replay_check). The rounds of an epoch come from the lanes themselves (kigen.spark.sink.round_server),
are recorded as they come (kigen.spark.sink.round_records), and Spark's batch only closes the epoch. Spark calls the
sink on its own thread, which may wait for a full queue indefinitely. Therefore the command shares only `lock` with it,
which is held briefly, and `interrupt` ends the wait.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from kigen.connectors import Sink
from kigen.durable import DamagedFile, sync_file
from kigen.spark.links.link_sink import LinkSink
from kigen.spark.operator import error_codec
from kigen.spark.operator.outbox import Encoders
from kigen.spark.rounds import round_log, wire
from kigen.spark.scratch import Committed, Scratch
from kigen.spark.session.start import quiet
from kigen.spark.sink import snapshot_files
from kigen.spark.sink.alignment import align
from kigen.spark.sink.epoch_progress import EpochProgress
from kigen.spark.sink.held_latencies import Held, HeldLatencies
from kigen.spark.sink.metrics import Metrics
from kigen.spark.sink.needed_inputs import NeededInputs
from kigen.spark.sink.output_writer import Outputs, OutputWriter
from kigen.spark.sink.replay_check import StepNotes, checksums_of, ends_of, is_new_batch
from kigen.spark.sink.round_records import RoundRecord, RoundRecords
from kigen.spark.sink.round_server import DeliveredRound, EndedLane, RoundServer
from kigen.spark.sink.sink_log import SinkLog, SinkRecord, Snapshots
from kigen.spark.sink.spark_files import COMMITS, FOLDER, SparkFiles
from kigen.spark.spec import RunSpec

_log = logging.getLogger("kigen")
_CLOSED = "the run has been stopped"
_NEW_CHECKPOINT = "Restore the checkpoint from a copy, or start from the beginning with a new --checkpoint directory"
ALL_ROUNDS = 1 << 62
_LOOK_S, _COMMITTING_S = 0.01, 10.0  # between two looks whether Spark has committed a batch, and the longest wait


class BatchSink:
    """Receives every batch of a run from Spark (`foreachBatch`)."""

    def __init__(self, spec: RunSpec, outputs: Outputs) -> None:
        self._spec, self.outputs = spec, outputs
        self.align()
        self._log, self.scratch = SinkLog(spec.checkpoint), Scratch(spec.scratch)
        self._spark_files = SparkFiles(spec.checkpoint)
        self._events: dict[str, int | None] = {}
        self._closed = False
        self.spark_syncs = False  # whether Spark itself makes its files durable
        self._committed_us = 0
        self.lock = threading.Lock()  # guards `metrics` and `record`
        self._writing = threading.Lock()  # held while a batch is written
        self._writer = OutputWriter(outputs, spec.checkpoint)
        self.error: Exception | None = None
        # Called with two offsets per stream that is read by offset: the first that a replay may need, the committed
        # one.
        self.on_commit: Callable[[dict[str, int], dict[str, int]], None] | None = None
        self.on_epoch: Callable[[], None] | None = None  # called when the sink log has an epoch, and no round runs
        self._inputs = NeededInputs()
        # For measurements: monotonic time of the commit, tuples read so far.
        self.commits: deque[tuple[float, int]] = deque(maxlen=10_000)
        last = self._log.last()
        self.record = last or SinkRecord(-1, {}, Metrics.fresh(spec.app).to_json(), change=spec.change)
        self.metrics = Metrics.from_json(self.record.metrics)
        self._forget_dropped()
        self._before_us, self._began = self.metrics.wall_us, time.monotonic()
        self._server: RoundServer | None = None
        self._epoch = EpochProgress(self.record.batch + 1)
        self._rounds = RoundRecords(spec.checkpoint, self.record.batch + 1)
        self._notes: StepNotes = []  # of the last step per task in the epoch that runs
        self._begun = -1  # the newest batch that lanes have begun
        self._ended: dict[int, list[dict[str, Any]]] = {}  # lane -> the rows with which it has ended the epoch
        self._closed_by_lanes: dict[int, int] = {}  # lane -> its rounds, in the newest epoch that the lanes closed
        self._trimming = -2  # inputs may be trimmed that only epochs up to this batch need
        self._held = HeldLatencies()
        self._due_at: dict[str, float] = {}  # output that commits at intervals -> when it is due

    def _forget_dropped(self) -> None:
        """Leaves out what the record has of queries, streams and tasks that the app has no longer, or that were added
        since."""
        record, app = self.record, self._spec.app
        queries = {q.name for q in app.queries if q.added_by <= record.change}
        streams = {s.name for s in app.streams if s.added_by <= record.change}
        tasks = {task.name for task in self._spec.tasks}
        known = {name: counts for name, counts in self.metrics.queries.items() if name in queries}
        self.metrics.queries = {**Metrics.fresh(app).queries, **known}
        record.positions = {name: at for name, at in record.positions.items() if name in streams}
        record.skipped = {name: errors for name, errors in record.skipped.items() if name in streams}
        record.finished = [task for task in record.finished if task in tasks]
        record.chunks = {task: versions for task, versions in record.chunks.items() if task in tasks}

    def align(self) -> None:
        """Aligns Spark's logs with the sink log, before Spark starts."""
        can_cut_back = not any(isinstance(sink, LinkSink) for sinks in self.outputs.values() for _, sink in sinks)
        align(Path(self._spec.checkpoint), can_cut_back)

    def open(self) -> None:
        """Opens every output and cuts it back to what the sink log and the records of rounds have."""
        self._writer.clear()
        positions = {**self.record.sink_positions, **self._restore_rounds()}
        for name, sink in self._writer.sinks:
            sink.open(positions.get(name))
        self._report_waiting()

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
            self._end_latencies(record.rounds, record.at_us)
            self._count(notes, record.out, record.at_us, record.held)
        if found:
            self._rounds.start(found, self._spec.syncs)
            self._committed_us = found[-1].at_us
        return positions

    def serve(self, spec: RunSpec) -> wire.Address:
        """Starts to take rounds from lanes and returns the address for them. Lanes of an earlier pipeline get no more
        answers."""
        if self._server is not None:
            self._server.close()
        self._spec = spec
        key = wire.make_key(Path(spec.checkpoint) / wire.KEY_FILE)
        self._server = RoundServer(
            spec.listening_address("sink"), key, self._begin_lane, self._take_rounds, self._end_lane
        )
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
        self._writer.interrupt()

    def close(self) -> None:
        self.interrupt()
        if self._server is not None:
            self._server.close()
        with self._writing:
            with suppress(OSError):  # then the next run lets them go
                self._let_go()
            self._rounds.close()
            self._writer.close()
            # Spark's gateway keeps this sink, and the listeners keep the run with its results.
            self.on_commit = self.on_epoch = None

    def encoders(self) -> Encoders:
        """Returns what workers need to encode results for the outputs."""
        return {query: {name: sink.encoder() for name, sink in pairs} for query, pairs in self.outputs.items()}

    @property
    def finished(self) -> bool:
        """Whether every row is written and the epoch of the last rows is closed."""
        return not self._rounds.is_open and {task.name for task in self._spec.tasks} <= set(self.record.finished)

    @property
    def has_open_epoch(self) -> bool:
        """Whether lanes run an epoch that the sink log does not have yet."""
        return self._rounds.is_open or self._begun > self.record.batch

    @property
    def epoch_committed(self) -> bool:
        """Whether no epoch runs, and Spark has committed the last one."""
        return not self.has_open_epoch and self._is_committed(self.record.batch)

    def _is_committed(self, batch: int) -> bool:
        """Whether Spark has committed a batch."""
        return (Path(self._spec.checkpoint) / FOLDER / COMMITS / str(batch)).exists()

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
            if self._inputs.ended(rows):
                threading.Thread(target=self._let_go_after, args=(batch,), name="kigen-inputs", daemon=True).start()

    def _let_go_after(self, batch: int) -> None:
        """Lets inputs go when Spark has committed a batch. A queue may be full of them, so that nothing else comes."""
        until = time.monotonic() + _COMMITTING_S
        while not self._is_committed(batch):
            if self._closed or time.monotonic() > until:
                return
            time.sleep(_LOOK_S)
        with self._writing:
            if self._closed:
                return
            try:
                self._let_go()
            except Exception as error:
                self.error = error

    def _let_go(self) -> None:
        if self._may_trim() and self._inputs.committed():
            self._committed([])

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
            assert not in_rounds, "the lanes close their epoch before Spark does"
            out = dict[str, int]()
            for row in rows:
                self._writer.write(row, out)
            self._commit(batch, notes, named, out)
        else:  # its results were written before a restart: only the state had to be rebuilt
            self._require_no_new_rounds(rows, batch)
            self._sync_spark_files()
            with self.lock:
                self.record.chunks = named
        # All lanes have saved their state: no worker writes a snapshot that is not named.
        snapshot_files.remove_unneeded(self._spec.checkpoint, named)
        self._writer.drop_spooled(rows)
        self._events |= {task: note["next_event_us"] for task, note in notes}
        seq = max((row["seq"] for row in rows), default=-1)
        self.scratch.set_committed(Committed(seq, self._committed_us, self._events))

    def _commit(self, batch: int, notes: StepNotes, named: Snapshots, out: dict[str, int] | None) -> None:
        """Commits a batch. `out` None: its rounds are counted already."""
        # Before a queue shows rows to other nodes: a batch whose offset is lost would have other rows when repeated.
        self._sync_spark_files()
        reached = self._writer.commit(self._writer.sinks)
        # Latencies end with the record that carries them. They exclude the few milliseconds that writing it takes.
        at_us = time.time_ns() // 1000
        self._end_latencies(None, at_us)
        if out is not None:
            self._count(notes, out, at_us, {})
        with self.lock:
            self.metrics.wall_us = self.wall_us
            record = self._next_record(batch, notes, named, reached)
        self._log.append(record, self._spec.syncs)
        with self.lock:
            self.record = record
        self._report_waiting()
        self._rounds.drop(self._writer.pool)
        self._epoch, self._rounds = EpochProgress(batch + 1), RoundRecords(self._spec.checkpoint, batch + 1)
        self._notes = []
        self._committed(notes)
        if self.on_epoch is not None:
            self.on_epoch()

    def _report_waiting(self) -> None:
        """Reports to the reader whether an idle run must commit all the same."""
        self.scratch.set_outputs_wait(any(sink.waits for _, sink in self._writer.sinks))

    def _committed(self, notes: StepNotes) -> None:
        """Reports to measurements and other nodes how far the run is."""
        self.commits.append((time.monotonic(), max((m.arrived for m in self.metrics.queries.values()), default=0)))
        self._inputs.stepped(notes)
        if self.on_commit is not None:
            positions = self.record.positions
            self.on_commit(
                self._inputs.oldest(self._spec), {s: int(at["index"]) for s, at in positions.items() if "index" in at}
            )

    def _may_trim(self) -> bool:
        """Whether the inputs of the last epoch may go.

        Lanes are ahead of Spark. Until it has committed that epoch, a restart makes it again.
        """
        last = self.record.batch
        if last > self._trimming and (last < 0 or self._is_committed(last)):
            self._sync_spark_files()
            self._trimming = last
        return self._trimming == last

    def _count(self, notes: StepNotes, out: dict[str, int], at_us: int, held: Held) -> None:
        """Adds a batch or some rounds to the counters and positions. Their results are durable since `at_us`, except
        those of `held`."""
        app, record = self._spec.app, self.record
        self._committed_us = at_us
        with self.lock:
            finished, positions, skipped = set(record.finished), dict(record.positions), dict(record.skipped)
            for query, rows in out.items():
                if query in self.metrics.queries:
                    self.metrics.queries[query].out += rows
            for task, note in notes:
                for warning in self.metrics.step(app, note):
                    _log.warning(warning)
                positions |= note["positions"]
                finished |= {task} if note["finished"] else set()
                for stream, (_, errors) in note["skipped"].items():
                    skipped[stream] = (skipped.get(stream, []) + errors)[:5]
                self.metrics.committed(app, note, at_us, self._held.hold(note, held))
            admitted = {note["admitted_us"] for _, note in notes}  # one time per round
            self.metrics.batches += max(1, len(admitted))
            self.metrics.wall_us = self.wall_us
            for admitted_us in admitted:
                self.metrics.batch.add(at_us - admitted_us)
            record.finished, record.positions, record.skipped = sorted(finished), positions, skipped

    def _end_latencies(self, outputs: Iterable[str] | None, at_us: int) -> None:
        """Adds the latencies of tuples that waited for these outputs only. None: for any output."""
        with self.lock:
            for note, queries in self._held.release(outputs):
                self.metrics.committed(self._spec.app, note, at_us, queries)

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
            self._spec.change,
        )

    # --- rounds ----------------------------------------------------------------------------------------------------

    def _begin_lane(self, epoch: int, lane: int) -> int:
        """Returns the last round of the lane that all its outputs have. The sink log has whole epochs."""
        with self._writing:
            self._begun = max(self._begun, epoch - 1)
            return ALL_ROUNDS if epoch - 1 <= self.record.batch else self._epoch.lane(lane).has

    def _take_rounds(self, rounds: list[DeliveredRound]) -> float | None:
        """Writes a group of rounds and commits them together. Returns in how many seconds an output will be due."""
        with self._writing:
            if self._closed:
                raise RuntimeError(_CLOSED)
            try:
                self._write_rounds([r for r in rounds if r.epoch - 1 > self.record.batch])
            except Exception as error:
                if not self._closed:
                    self.error = error
                raise
            return self._due_s()

    def _write_rounds(self, rounds: list[DeliveredRound]) -> None:
        # Two attempts of a lane may have sent the same round.
        distinct = {(r.lane, r.number): r for r in reversed(rounds) if self._epoch.is_new(r.lane, r.number)}
        fresh = [distinct[key] for key in sorted(distinct)]
        if not fresh and self._due_s() != 0.0:
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
                self._writer.write(row, out, partial(self._epoch.lacks, entry.number))
                if row["kind"] == "step":
                    notes.append((row["task"], row["note"]))
            self._epoch.lane(entry.lane).written = entry.number
            self._end_round(entry)
        self._record_rounds(counted)
        self._writer.drop_spooled([row for entry in fresh for row in entry.rows])

    def _end_round(self, entry: DeliveredRound) -> None:
        """Ends the round in each output that got rows of it."""
        for query in {row["query"] for row in entry.rows if row["kind"] in ("lines", "files")}:
            for name, sink in self.outputs.get(query, ()):
                if self._epoch.lacks(entry.number, name):
                    sink.end_round()
                    self._epoch.wrote(entry.lane, entry.number, name)
                    self._due_at.setdefault(name, time.monotonic() + sink.commit_interval_us / 1e6)

    def _due_s(self) -> float | None:
        """Returns in how many seconds an output must commit what it has got; None if none waits for that."""
        now = time.monotonic()
        waiting = self._epoch.waiting & set(self._by_rounds())
        return min((max(0.0, self._due_at.get(name, now) - now) for name in waiting), default=None)

    def _by_rounds(self) -> dict[str, Sink]:
        """Returns the outputs that commit while an epoch runs."""
        return {name: sink for name, sink in self._writer.sinks if not sink.commits_per_epoch}

    def _record_rounds(self, counted: dict[int, tuple[list[tuple[str, str]], dict[str, int]]]) -> None:
        """Makes the outputs durable that are due, and records what they have."""
        now = time.monotonic()
        outputs, waiting = self._by_rounds(), self._epoch.waiting
        due = [(n, outputs[n]) for n in sorted(waiting & set(outputs)) if self._due_at.get(n, now) <= now]
        positions = self._writer.commit(due)
        rounds = self._epoch.committed([name for name, _ in due])
        for name, _ in due:
            self._due_at.pop(name, None)
        at_us = time.time_ns() // 1000
        self._end_latencies([name for name, _ in due], at_us)
        records = []
        for lane in sorted({*counted, *rounds}):
            notes, out = counted.get(lane, ([], {}))
            mine, progress = rounds.get(lane, {}), self._epoch.lane(lane)
            reached = {name: positions[name] for name in mine}
            held = self._waiting_outputs(out)
            records.append(RoundRecord(lane, progress.written, progress.has, at_us, reached, mine, notes, out, held))
        if not records:
            return
        if not self._rounds.is_open:
            self._rounds.start([], self._spec.syncs)
        self._rounds.append(records, self._spec.syncs)
        for record in records:
            steps = [(task, json.loads(note)) for task, note in record.notes]
            if steps or record.out:
                self._count(steps, record.out, at_us, record.held)
            latest = dict(self._notes) | dict(steps)
            self._notes = list(latest.items())
        self._committed(self._notes if self._may_trim() else [])

    def _waiting_outputs(self, out: dict[str, int]) -> dict[str, list[str]]:
        """Returns, per query with new rows, its outputs that commit at intervals and have not committed them."""
        waiting = self._epoch.waiting & set(self._by_rounds())
        found = {query: [name for name, _ in self.outputs.get(query, ()) if name in waiting] for query in out}
        return {query: names for query, names in found.items() if names}

    def _end_lane(self, ended: EndedLane) -> None:
        """Takes note that a lane has ended its epoch. The last lane closes the epoch: the sink log gets its record.

        Spark's batch comes later. Until then a restart makes the epoch again, without results.
        """
        with self._writing:
            if self._closed:
                raise RuntimeError(_CLOSED)
            batch = ended.epoch - 1
            if batch <= self.record.batch:
                return
            self._ended[ended.lane] = ended.rows
            if len(self._ended) < ended.lanes:
                return
            rows = [row for lane in sorted(self._ended) for row in self._ended[lane]]
            try:
                self._closed_by_lanes = self._rounds_of(rows)
                chunks = {row["task"]: row["note"] for row in rows if row["kind"] == "chunk"}
                named = snapshot_files.with_batch(self.record.chunks, batch, chunks)
                self._commit(batch, self._notes, named, None)
            except Exception as error:
                if not self._closed:
                    self.error = error
                raise
            self._ended = {}

    def _rounds_of(self, rows: list[dict[str, Any]]) -> dict[int, int]:
        """Returns the number of rounds per lane. Checks that all of them have come: a lane waits for that."""
        found = {about["lane"]: about["rounds"] for about in _lane_notes(rows)}
        for lane, rounds in found.items():
            written = self._epoch.lane(lane).written
            assert written == rounds, f"lane {lane} made {rounds} rounds, {written} came"
        return found

    def _require_no_new_rounds(self, rows: list[dict[str, Any]], batch: int) -> None:
        """Raises DamagedFile if an epoch in the sink log got other rounds when it was made again."""
        for about in _lane_notes(rows):
            if about["rounds"] not in (ALL_ROUNDS, self._closed_by_lanes.get(about["lane"])):
                path = round_log.path_of(self._spec.checkpoint, batch + 1, about["lane"])
                raise DamagedFile(
                    str(path), "it has lost its end, though its epoch is in the sink log", _NEW_CHECKPOINT
                )

    # --- files -----------------------------------------------------------------------------------------------------

    def _sync_spark_files(self) -> None:
        if self._spec.syncs and not self.spark_syncs:
            self._spark_files.sync(self._writer.pool)


def _lane_notes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(row["note"]) for row in rows if row["kind"] == "lane"]
