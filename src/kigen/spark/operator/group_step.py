"""The stateful operator, in Spark's Python workers: reads the ranges that a batch refers to, steps the task's kernel,
gives blocks back.

Invariant: the kernel that steps is the one of the manifest's `seq`: live from this worker's cache if it is that, else
loaded. An error of the input or of an expression leaves as a row of kind `error`; the sink then fails the batch, so
nothing of it is kept. Spark imports `run_group` by name: a function pickled by value would bring its own, empty, cache.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from kigen.connectors import InputError, Range, Rows
from kigen.connectors.source_base import place_of_range
from kigen.durable import DamagedFile
from kigen.lifetimes import EvaluationError, StreamInput
from kigen.lifetimes.runtime import Give
from kigen.spark.operator import error_codec, result_rows
from kigen.spark.operator.arrival_times import ArrivalStamper, slotted
from kigen.spark.operator.cost_burner import burn
from kigen.spark.operator.dropped_tuples import removed_tuples, shed_output_name
from kigen.spark.operator.manifest import Manifest
from kigen.spark.operator.outbox import Encoders, Outbox, decode_encoders
from kigen.spark.operator.range_reader import RangeReader, clear_read_ranges
from kigen.spark.operator.result_rows import Spool
from kigen.spark.operator.slice_moves import LaterSlices, moves_of
from kigen.spark.spec import RunSpec
from kigen.spark.watch import worker_files
from kigen.spark.watch.memory import MemoryLimitReached
from kigen.spark.watch.step_watch import StepWatch
from kigen.spark.watch.worker_files import WorkerFiles

Key = tuple[str, int]
Out = tuple[str, int, str | None, str, bytes | None, str | None]

_KERNELS: dict[tuple[str, str, int], tuple[int, Any]] = {}  # (run, task, bucket) -> (seq, kernel)
_MANY = 100_000  # tuples: saving so many takes a while
_WATCHES: dict[tuple[str, str, int], StepWatch] = {}


def run_group(
    key: Key, frames: Iterator[pd.DataFrame], state: Any, spec_text: str, encoders_text: str | None = None
) -> Iterator[pd.DataFrame]:
    spec = _spec(spec_text)
    encoders = None if encoders_text is None else decode_encoders(encoders_text)
    task, bucket = str(key[0]), int(key[1])
    rows = sorted((int(r.seq), str(r.payload)) for frame in frames for r in frame.itertuples())
    manifest = Manifest.from_state(state.get) if state.exists else Manifest()
    out: list[Out] = []
    watch = _watch_of(spec, task, bucket)
    try:
        payloads = [(seq, json.loads(text)) for seq, text in rows]
        watch.begin(
            rows[-1][0], {piece["stream"]: piece["end"] for _, payload in payloads for piece in payload["ranges"]}
        )
        reading = RangeReader(spec, payloads[0][1]["started_us"])
        kernel = _kernel(spec, task, bucket, manifest, reading, watch)
        for seq, payload in payloads:
            out += _step(spec, task, kernel, manifest, seq, payload, reading, encoders, watch)
        if manifest.wants_snapshot(kernel.tuples_held):
            watch.phase(worker_files.SAVING, long=kernel.tuples_held > _MANY)
            manifest.take_snapshot(kernel.snapshot(), Path(spec.checkpoint) / "chunks", spec.inline_bytes, spec.syncs)
        state.update(manifest.to_state())
        _KERNELS[spec.run_id, task, bucket] = manifest.seq, kernel
        out.append((task, manifest.seq, None, "chunk", None, manifest.chunk))
        watch.done()
    except MemoryLimitReached as error:
        out = _error_row(spec, task, bucket, rows[-1][0], error)
    except (MemoryError, duckdb.OutOfMemoryException) as error:
        out = _error_row(spec, task, bucket, rows[-1][0], watch.allocation_refused(error))
    except (InputError, EvaluationError, DamagedFile, duckdb.Error, OSError) as error:
        out = _error_row(spec, task, bucket, rows[-1][0], error)
    yield pd.DataFrame(out, columns=result_rows.COLUMNS)


def _error_row(spec: RunSpec, task: str, bucket: int, seq: int, error: Exception) -> list[Out]:
    _KERNELS.pop((spec.run_id, task, bucket), None)
    return [(task, seq, None, "error", None, error_codec.to_text(error))]


def _watch_of(spec: RunSpec, task: str, bucket: int) -> StepWatch:
    key = spec.run_id, task, bucket
    if key not in _WATCHES:
        for stale in [k for k in _WATCHES if k[0] != spec.run_id]:
            _WATCHES.pop(stale).close()
        _WATCHES[key] = StepWatch(spec, next(t for t in spec.tasks if t.name == task), bucket, _relieve)
    return _WATCHES[key]


def _relieve(files: WorkerFiles) -> None:
    """Memory is short: let go what was read for other tasks, and kernels that another worker has stepped since."""
    clear_read_ranges()
    elsewhere = {(report.task, report.bucket) for report in files.reports() if report.pid != os.getpid()}
    for key in [k for k in _KERNELS if k[1:] in elsewhere]:
        del _KERNELS[key]


def _kernel(spec: RunSpec, task: str, bucket: int, manifest: Manifest, reading: RangeReader, watch: StepWatch) -> Any:
    """The kernel as it was after the manifest's last step: this worker's own, brought up to date if another worker
    stepped meanwhile."""
    cached = _KERNELS.pop((spec.run_id, task, bucket), None)
    for stale in [k for k in _KERNELS if k[0] != spec.run_id]:
        del _KERNELS[stale]
    if cached is not None and manifest.base <= cached[0] <= manifest.seq:
        at, kernel = cached
    else:
        at, kernel = manifest.base, spec.task_runtime(task)
        if manifest.seq:
            watch.phase(worker_files.LOADING, long=True)
        snapshot = manifest.load_snapshot(Path(spec.checkpoint) / "chunks")
        if snapshot is not None:
            kernel.restore(snapshot)
    for seq, ranges, *slices in manifest.references:
        if seq > at:  # its results were given out when it first ran
            read = reading.ranges(ranges)
            with watch.stepping(kernel, _rows(read)):
                kernel.step(_inputs(read), None, *(moves_of(later) for later in slices))
    return kernel


def _step(
    spec: RunSpec,
    task: str,
    kernel: Any,
    manifest: Manifest,
    seq: int,
    payload: dict[str, Any],
    reading: RangeReader,
    encoders: Encoders | None,
    watch: StepWatch,
) -> Iterator[Out]:
    read, outbox = reading.ranges(payload["ranges"]), Outbox(Spool(spec.checkpoint), encoders, spec.inline_bytes)
    kept = manifest.oldest_needed(payload["ranges"])
    later = LaterSlices(payload["slices"], reading) if "slices" in payload else None
    try:
        giving = _giving(spec, outbox, read, payload["admitted_us"])
        with watch.stepping(kernel, _rows(read)):
            result = (
                kernel.step(_inputs(read), giving) if later is None else kernel.step(_inputs(read), giving, later.moves)
            )
    except BaseException:
        outbox.abandon()
        raise
    burn(spec, result.counts)
    manifest.add_step(
        seq,
        [_with_checksum(piece, rows) for piece, rows in read],
        _rows(read),
        None if later is None else later.reference,
    )
    shed, gone = removed_tuples(spec, task, read, payload["shed"], reading)
    dropped = payload["dropped"]
    for stream, table in gone.items():
        outbox.give(shed_output_name(stream), table)
    for query, kind, carried, named in outbox.rows():
        yield task, seq, query, kind, carried, named
    note = {
        "admitted_us": payload["admitted_us"],
        "counts": result.counts,
        "finished": result.finished,
        "next_event_us": result.next_event_us,
        "positions": {piece.stream: piece.end for piece, _ in read},
        "checksums": _checksums(read),
        "skipped": _skipped(read),
        "shed": {stream: count - dropped.get(stream, 0) for stream, count in shed.items()},
        "dropped": dropped,
        "done_us": time.time_ns() // 1000,
        "arrivals": _arrivals(read, payload["admitted_us"]),
        "kept": kept,
        "state": watch.state(result.finished),
        "later": {} if later is None else later.note(spec.slices[task].queries[1:]),
    }
    yield task, seq, None, "step", None, json.dumps(note)


def _with_checksum(piece: Range, rows: Rows) -> dict[str, Any]:
    """A range as the manifest remembers it: what was read of it must be found again by a replay."""
    return replace(piece, checksum=rows.checksum).to_json()


def _checksums(read: list[tuple[Range, Rows]]) -> dict[str, list[Any]]:
    """Of each stream in files: its ranges, and what was read in them."""
    found: dict[str, list[Any]] = {}
    for piece, rows in read:
        if rows.checksum is not None:
            found.setdefault(piece.stream, []).append([piece.end.get("file"), place_of_range(piece), rows.checksum])
    return found


def _giving(spec: RunSpec, outbox: Outbox, read: list[tuple[Range, Rows]], admitted_us: int) -> Give:
    """Where the kernel's results go. Rows for another node are told when the tuples behind them arrived."""
    sent = {query.name for query in spec.app.queries if query.sent}
    if not sent:
        return outbox.give
    arrived = ArrivalStamper(read, admitted_us)
    return lambda query, table: outbox.give(query, arrived.stamped(table) if query in sent else table)


def _rows(read: list[tuple[Range, Rows]]) -> int:
    return sum(rows.table.num_rows for _, rows in read)


def _inputs(read: list[tuple[Range, Rows]]) -> dict[str, StreamInput]:
    inputs: dict[str, StreamInput] = {}
    for piece, rows in read:
        given = inputs.setdefault(piece.stream, StreamInput(tables=[], progress_us=None, ended=False))
        if rows.given is None:
            given.tables.append(rows.table)
            given.progress_us, given.ended = piece.progress_us, piece.ended
            continue
        if rows.given.jump is not None:  # what lies before it is not needed
            given.tables, given.steps_us = [], []
        given.tables += rows.given.tables
        given.steps_us += rows.given.steps_us
        given.jump = given.jump if rows.given.jump is None else rows.given.jump
        given.progress_us = given.progress_us if rows.given.progress_us is None else rows.given.progress_us
        given.ended = given.ended or rows.given.ended or piece.ended
        given.last_us = given.last_us if rows.given.last_us is None else rows.given.last_us
    return inputs


def _skipped(read: list[tuple[Range, Rows]]) -> dict[str, Any]:
    skipped: dict[str, Any] = {}
    for piece, rows in read:
        if rows.skipped:
            count, errors = skipped.get(piece.stream, (0, []))
            skipped[piece.stream] = count + rows.skipped, (errors + rows.errors)[:5]
    return skipped


def _arrivals(read: list[tuple[Range, Rows]], admitted_us: int) -> dict[str, list[tuple[int, int]]]:
    """For each stream, (arrival, tuples): a log's tuples arrive when they are admitted, a live source's when scheduled,
    in slots."""
    arrivals: dict[str, list[tuple[int, int]]] = {}
    for piece, rows in read:
        if not rows.table.num_rows:
            continue
        found = arrivals.setdefault(piece.stream, [])
        if rows.arrivals_us is None:
            found.append((admitted_us, rows.table.num_rows))
            continue
        found += slotted(rows.arrivals_us)
    return arrivals


@lru_cache(maxsize=4)
def _spec(text: str) -> RunSpec:
    return RunSpec.decode(text)
