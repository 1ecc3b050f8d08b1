"""Steps the kernel of one task in a worker: reads its ranges, makes its results, keeps its manifest.

Invariant: the kernel that steps is the one after the manifest's `seq`. It comes from this worker's cache if that has
the right one, else it is loaded. A batch makes one step per task, an epoch as many as it has rounds.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kigen.connectors import InputError, Range, Rows
from kigen.durable import DamagedFile
from kigen.lifetimes import EvaluationError, StreamInput
from kigen.lifetimes.runtime import Give
from kigen.plan.dropped_rows import shed_output_name
from kigen.spark.operator import error_codec
from kigen.spark.operator.arrival_times import ArrivalStamper
from kigen.spark.operator.cost_burner import burn
from kigen.spark.operator.dropped_tuples import dropped_rows, removed_tuples, with_places
from kigen.spark.operator.manifest import Manifest
from kigen.spark.operator.outbox import Encoders, Outbox
from kigen.spark.operator.range_reader import RangeReader, clear_read_ranges
from kigen.spark.operator.result_rows import Spool
from kigen.spark.operator.slice_moves import LaterSlices, moves_of
from kigen.spark.operator.step_note import ReadRanges, step_note
from kigen.spark.spec import RunSpec
from kigen.spark.watch import worker_files
from kigen.spark.watch.memory import MemoryLimitReached
from kigen.spark.watch.step_watch import StepWatch
from kigen.spark.watch.worker_files import WorkerFiles

ResultRow = tuple[str, int, str | None, str, bytes | None, str | None]  # see kigen.spark.operator.result_rows
Payload = dict[str, Any]

# Held while a kernel works: the threads of a worker share caches and DuckDB's connection.
ONE_AT_A_TIME = threading.RLock()
_KERNELS: dict[tuple[str, str, int], tuple[int, Any]] = {}  # (run, task, bucket) -> (seq, kernel)
_WATCHES: dict[tuple[str, str, int], StepWatch] = {}
_IN_ORDER = ("synthetic", "http", "mqtt", "link")  # sources that give tuples in the order of their arrival times
_MANY_TABLES = 16
_MANY = 100_000  # tuples: saving a kernel that holds more takes a while
# Errors that end the run with a message for its user.
USER_ERRORS = (MemoryLimitReached, MemoryError, InputError, EvaluationError, DamagedFile, duckdb.Error, OSError)


@dataclass
class TaskStep:
    """One (task, bucket) in a batch or an epoch."""

    spec: RunSpec
    task: str
    bucket: int
    manifest: Manifest
    reader: RangeReader
    encoders: Encoders | None
    watch: StepWatch = field(init=False)
    _spool: Spool = field(init=False)
    _queued: frozenset[str] = field(init=False)  # streams whose tuples a queue keeps
    _sent: frozenset[str] = field(init=False)  # queries whose results go to another node
    _costs_us: dict[str, int] = field(init=False)  # query -> what each of its tuples burns
    _loaded: Any = None
    _kept: dict[str, int] | None = None
    _ends: dict[str, int] = field(default_factory=dict)  # stream that is read by offset -> how far in this epoch

    def __post_init__(self) -> None:
        self.watch = _watch_of(self.spec, self.task, self.bucket)
        self._spool = Spool(self.spec.checkpoint)
        task = next(t for t in self.spec.tasks if t.name == self.task)
        queries = task.queries
        self._queued = frozenset(stream for stream in task.streams if self.spec.is_queued(stream))
        self._sent = frozenset(query.name for query in queries if query.sent)
        self._costs_us = {query.name: query.cost_us for query in queries if query.cost_us}

    @property
    def kernel(self) -> Any:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def _load(self) -> Any:
        """Returns the kernel as it was after the manifest's last step.

        Takes this worker's own, and replays the steps that another worker has made since.
        """
        spec, manifest, watch = self.spec, self.manifest, self.watch
        cached = _KERNELS.pop((spec.run_id, self.task, self.bucket), None)
        for stale in [k for k in _KERNELS if k[0] != spec.run_id]:
            _KERNELS.pop(stale, None)
        if cached is not None and manifest.base <= cached[0] <= manifest.seq:
            at, kernel = cached
        else:
            at, kernel = manifest.base, spec.task_runtime(self.task)
            if manifest.seq:
                watch.phase(worker_files.LOADING, long=True)
            snapshot = manifest.load_snapshot(Path(spec.checkpoint) / "chunks")
            if snapshot is not None:
                kernel.restore(snapshot)
        for seq, ranges, *slices in manifest.references:
            if seq > at:  # without results: they were written when the step first ran
                self._step_again(kernel, ranges, slices)
        return kernel

    def _step_again(self, kernel: Any, ranges: list[dict[str, Any]], slices: list[Any]) -> ReadRanges:
        # Streams that only dropped queries read are not read again.
        read = self.reader.ranges([piece for piece in ranges if piece["stream"] in kernel.task.streams])
        with self.watch.stepping(kernel, _rows(read)):
            kernel.step(_inputs(read), None, *(moves_of(later) for later in slices))
        return read

    @property
    def can_merge(self) -> bool:
        """Whether several steps may be replayed as one.

        Only streams in the order of their arrival: whether other tuples are late may depend on the steps. Not if other
        nodes get numbered rows, or if slices move separately.
        """
        app, task = self.spec.app, next(t for t in self.spec.tasks if t.name == self.task)
        streams = [app.stream(name) for name in task.streams]
        ordered = all(s.timestamp is None and s.source.name in _IN_ORDER for s in streams)
        return ordered and self.task not in self.spec.slices and not any(q.sent for q in task.queries)

    def replay(self, seq: int, payloads: list[Payload]) -> None:
        """Makes steps again without results: the sink has them."""
        for payload in payloads:
            self._keep(payload)
        if self.can_merge and len(payloads) > 1:
            merged = [piece for payload in payloads for piece in payload["ranges"]]
            read = self._step_again(self.kernel, merged, [])
            self._note(seq, read, None)
            return
        for payload in payloads:
            later = LaterSlices(payload["slices"], self.reader) if "slices" in payload else None
            slices = [] if later is None else [later.reference]
            self._note(seq, self._step_again(self.kernel, payload["ranges"], slices), later)

    def _keep(self, payload: Payload) -> dict[str, int]:
        """Returns the oldest offsets that a replay needs. They do not change within an epoch."""
        if self._kept is None:
            self._kept = {}
        missing = {p["stream"] for p in payload["ranges"]} - set(self._kept)
        if missing:
            self._kept = {**self.manifest.oldest_needed(payload["ranges"]), **self._kept}
        return self._kept

    def _note(self, seq: int, read: ReadRanges, later: LaterSlices | None) -> None:
        reference = None if later is None else later.reference
        ranges = [_with_checksum(piece, rows) for piece, rows in read]
        queued_bytes = sum(rows.table.nbytes for piece, rows in read if piece.stream in self._queued)
        self.manifest.add_step(seq, ranges, _rows(read), reference, queued_bytes)
        self._ends |= {piece.stream: int(piece.end["index"]) for piece, _ in read if "index" in piece.end}

    def step(self, seq: int, payload: Payload) -> Iterator[ResultRow]:
        """Makes one step of the kernel and yields its rows."""
        spec, task, kernel = self.spec, self.task, self.kernel
        read = with_places(self.reader.ranges(payload["ranges"]), spec)
        outbox = Outbox(self._spool, self.encoders, spec.inline_bytes)
        kept = self._keep(payload)
        later = LaterSlices(payload["slices"], self.reader) if "slices" in payload else None
        try:
            give = _receiver(self._sent, outbox, read, payload["admitted_us"])
            with self.watch.stepping(kernel, _rows(read)):
                inputs = _inputs(read)
                result = kernel.step(inputs, give) if later is None else kernel.step(inputs, give, later.moves)
        except BaseException:
            outbox.abandon()
            raise
        burn(self._costs_us, result.counts)
        self._note(seq, read, later)
        shed, shed_tables = removed_tuples(spec, task, read, payload["shed"], self.reader)
        for stream, table in shed_tables.items():
            outbox.give(shed_output_name(stream), table)
        for output, table in dropped_rows(spec, task, read, result.late, payload["admitted_us"]).items():
            outbox.give(output, table)
        for query, kind, packed, note in outbox.rows():
            yield task, seq, query, kind, packed, note
        about = step_note(result, read, payload, shed, kept) | {
            "state": self.watch.state(result.finished),
            "later": {} if later is None else later.note(spec.slices[task].queries[1:]),
        }
        yield task, seq, None, "step", None, json.dumps(about)

    @property
    def next_event_us(self) -> int | None:
        """Returns when the passing of time changes a result, even if nothing arrives."""
        found: int | None = self.kernel.next_event_us
        return found

    def save(self) -> list[ResultRow]:
        """Takes a snapshot if it is due. Returns its row, and what a replay needs of the inputs from here on."""
        spec, manifest, kernel = self.spec, self.manifest, self.kernel
        if manifest.wants_snapshot(kernel.tuples_held, spec.queue_bytes):
            self.watch.phase(worker_files.SAVING, long=kernel.tuples_held > _MANY)
            manifest.take_snapshot(kernel.snapshot(), Path(spec.checkpoint) / "chunks", spec.inline_bytes, spec.syncs)
        rows: list[ResultRow] = [(self.task, manifest.seq, None, "chunk", None, manifest.chunk)]
        if self._ends and self.task not in spec.slices:  # later slices read older tuples again
            needed = {**self._ends, **manifest.oldest_needed([])}
            rows.append((self.task, manifest.seq, None, "needed", None, json.dumps(needed)))
        return rows

    def keep(self) -> None:
        """Keeps the kernel for the next batch: the state of this one is made."""
        _KERNELS[self.spec.run_id, self.task, self.bucket] = self.manifest.seq, self.kernel
        self.watch.done()

    def error_row(self, seq: int, error: Exception) -> ResultRow:
        """Returns the row that ends the run."""
        _KERNELS.pop((self.spec.run_id, self.task, self.bucket), None)
        if isinstance(error, MemoryError | duckdb.OutOfMemoryException) and not isinstance(error, MemoryLimitReached):
            error = self.watch.allocation_refused(error)
        return self.task, seq, None, "error", None, error_codec.to_text(error)


def _watch_of(spec: RunSpec, task: str, bucket: int) -> StepWatch:
    key = spec.run_id, task, bucket
    found = _WATCHES.get(key)
    if found is None:
        for stale in [k for k in _WATCHES if k[0] != spec.run_id]:
            del _WATCHES[stale]  # a lane of another run may go on here, with the watch that it has
        found = StepWatch(spec, next(t for t in spec.tasks if t.name == task), bucket, _free_memory)
        _WATCHES[key] = found
    return found


def _free_memory(files: WorkerFiles) -> None:
    """Frees cached ranges, and kernels of tasks that another worker has stepped since."""
    clear_read_ranges()
    elsewhere = {(report.task, report.bucket) for report in files.reports() if report.pid != os.getpid()}
    for key in [k for k in _KERNELS if k[1:] in elsewhere]:
        del _KERNELS[key]


def _with_checksum(piece: Range, rows: Rows) -> dict[str, Any]:
    """Returns a range as the manifest records it: a replay must read the same content."""
    if piece.checksum == rows.checksum:
        return piece.to_json()
    return replace(piece, checksum=rows.checksum).to_json()


def _receiver(sent: frozenset[str], outbox: Outbox, read: ReadRanges, admitted_us: int) -> Give:
    """Returns the function that receives the kernel's results. Rows for another node get their arrival times."""
    if not sent:
        return outbox.give
    stamper = ArrivalStamper(read, admitted_us)
    return lambda query, table: outbox.give(query, stamper.stamped(table) if query in sent else table)


def _rows(read: ReadRanges) -> int:
    return sum(rows.table.num_rows for _, rows in read)


def _inputs(read: ReadRanges) -> dict[str, StreamInput]:
    """Merges the ranges of each stream into one input of the kernel.

    Many ranges, as in a replay, become one table: the kernel halts at least once per table.
    """
    inputs: dict[str, StreamInput] = {}
    for piece, rows in read:
        given = inputs.setdefault(piece.stream, StreamInput(tables=[], progress_us=None, ended=False))
        if rows.given is None:
            given.tables.append(rows.table)
            given.progress_us, given.ended, given.partitions = piece.progress_us, piece.ended, rows.partitions
            continue
        if rows.given.jump is not None:  # rows before a gap are not needed
            given.tables, given.steps_us = [], []
        given.tables += rows.given.tables
        given.steps_us += rows.given.steps_us
        given.jump = given.jump if rows.given.jump is None else rows.given.jump
        given.progress_us = given.progress_us if rows.given.progress_us is None else rows.given.progress_us
        given.ended = given.ended or rows.given.ended or piece.ended
        given.last_us = given.last_us if rows.given.last_us is None else rows.given.last_us
    for given in inputs.values():
        if len(given.tables) > _MANY_TABLES and not given.steps_us:
            given.tables = [pa.concat_tables(given.tables).combine_chunks()]
    return inputs
