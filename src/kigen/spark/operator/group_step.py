"""Runs the stateful operator in Spark's Python workers: reads the ranges of a batch and steps the task's kernel.

Invariant: the kernel that steps is the one after the manifest's `seq`. It comes from this worker's cache if that has
the right one, else it is loaded. An error of the input or of an expression leaves as a row of kind `error`. The sink
then fails the batch, so nothing of it is kept. Spark imports `run_group` by name: a function that is pickled by value
would bring its own, empty cache.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from kigen.connectors import InputError, Range, Rows
from kigen.durable import DamagedFile
from kigen.lifetimes import EvaluationError, StreamInput
from kigen.lifetimes.runtime import Give
from kigen.spark.operator import error_codec, result_rows
from kigen.spark.operator.arrival_times import ArrivalStamper
from kigen.spark.operator.cost_burner import burn
from kigen.spark.operator.dropped_tuples import removed_tuples, shed_output_name
from kigen.spark.operator.manifest import Manifest
from kigen.spark.operator.outbox import Encoders, Outbox, decode_encoders
from kigen.spark.operator.range_reader import RangeReader, clear_read_ranges
from kigen.spark.operator.result_rows import Spool
from kigen.spark.operator.slice_moves import LaterSlices, moves_of
from kigen.spark.operator.step_note import ReadRanges, step_note
from kigen.spark.spec import RunSpec
from kigen.spark.watch import worker_files
from kigen.spark.watch.memory import MemoryLimitReached
from kigen.spark.watch.step_watch import StepWatch
from kigen.spark.watch.worker_files import WorkerFiles

Key = tuple[str, int]  # task, bucket
ResultRow = tuple[str, int, str | None, str, bytes | None, str | None]  # see kigen.spark.operator.result_rows

_KERNELS: dict[tuple[str, str, int], tuple[int, Any]] = {}  # (run, task, bucket) -> (seq, kernel)
_WATCHES: dict[tuple[str, str, int], StepWatch] = {}
_MANY = 100_000  # tuples: saving a kernel that holds more takes a while


@dataclass
class _Group:
    """What the steps of one (task, bucket) in a batch share."""

    spec: RunSpec
    task: str
    bucket: int
    manifest: Manifest
    reader: RangeReader
    watch: StepWatch
    encoders: Encoders | None


def run_group(
    key: Key, frames: Iterator[pd.DataFrame], state: Any, spec_text: str, encoders_text: str | None = None
) -> Iterator[pd.DataFrame]:
    """Processes the rows of one (task, bucket) in a batch. Spark calls this (applyInPandasWithState)."""
    spec = _spec(spec_text)
    encoders = None if encoders_text is None else decode_encoders(encoders_text)
    task, bucket = str(key[0]), int(key[1])
    rows = sorted((int(r.seq), str(r.payload)) for frame in frames for r in frame.itertuples())
    manifest = Manifest.from_state(state.get) if state.exists else Manifest()
    out: list[ResultRow] = []
    watch = _watch_of(spec, task, bucket)
    try:
        payloads = [(seq, json.loads(text)) for seq, text in rows]
        watch.begin(
            rows[-1][0], {piece["stream"]: piece["end"] for _, payload in payloads for piece in payload["ranges"]}
        )
        reader = RangeReader(spec, payloads[0][1]["started_us"])
        group = _Group(spec, task, bucket, manifest, reader, watch, encoders)
        kernel = _kernel(group)
        for seq, payload in payloads:
            out += _step(group, kernel, seq, payload)
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


def _error_row(spec: RunSpec, task: str, bucket: int, seq: int, error: Exception) -> list[ResultRow]:
    _KERNELS.pop((spec.run_id, task, bucket), None)
    return [(task, seq, None, "error", None, error_codec.to_text(error))]


def _watch_of(spec: RunSpec, task: str, bucket: int) -> StepWatch:
    key = spec.run_id, task, bucket
    if key not in _WATCHES:
        for stale in [k for k in _WATCHES if k[0] != spec.run_id]:
            _WATCHES.pop(stale).close()
        _WATCHES[key] = StepWatch(spec, next(t for t in spec.tasks if t.name == task), bucket, _free_memory)
    return _WATCHES[key]


def _free_memory(files: WorkerFiles) -> None:
    """Frees cached ranges, and kernels of tasks that another worker has stepped since."""
    clear_read_ranges()
    elsewhere = {(report.task, report.bucket) for report in files.reports() if report.pid != os.getpid()}
    for key in [k for k in _KERNELS if k[1:] in elsewhere]:
        del _KERNELS[key]


def _kernel(group: _Group) -> Any:
    """Returns the kernel as it was after the manifest's last step.

    Takes this worker's own, and replays the steps that another worker has made since.
    """
    spec, manifest, watch = group.spec, group.manifest, group.watch
    cached = _KERNELS.pop((spec.run_id, group.task, group.bucket), None)
    for stale in [k for k in _KERNELS if k[0] != spec.run_id]:
        del _KERNELS[stale]
    if cached is not None and manifest.base <= cached[0] <= manifest.seq:
        at, kernel = cached
    else:
        at, kernel = manifest.base, spec.task_runtime(group.task)
        if manifest.seq:
            watch.phase(worker_files.LOADING, long=True)
        snapshot = manifest.load_snapshot(Path(spec.checkpoint) / "chunks")
        if snapshot is not None:
            kernel.restore(snapshot)
    for seq, ranges, *slices in manifest.references:
        if seq > at:  # without results: they were written when the step first ran
            read = group.reader.ranges(ranges)
            with watch.stepping(kernel, _rows(read)):
                kernel.step(_inputs(read), None, *(moves_of(later) for later in slices))
    return kernel


def _step(group: _Group, kernel: Any, seq: int, payload: dict[str, Any]) -> Iterator[ResultRow]:
    """Makes one step of the kernel and yields its rows."""
    spec, task, manifest = group.spec, group.task, group.manifest
    read = group.reader.ranges(payload["ranges"])
    outbox = Outbox(Spool(spec.checkpoint), group.encoders, spec.inline_bytes)
    kept = manifest.oldest_needed(payload["ranges"])
    later = LaterSlices(payload["slices"], group.reader) if "slices" in payload else None
    try:
        give = _receiver(spec, outbox, read, payload["admitted_us"])
        with group.watch.stepping(kernel, _rows(read)):
            inputs = _inputs(read)
            result = kernel.step(inputs, give) if later is None else kernel.step(inputs, give, later.moves)
    except BaseException:
        outbox.abandon()
        raise
    burn(spec, result.counts)
    reference = None if later is None else later.reference
    manifest.add_step(seq, [_with_checksum(piece, rows) for piece, rows in read], _rows(read), reference)
    shed, shed_tables = removed_tuples(spec, task, read, payload["shed"], group.reader)
    for stream, table in shed_tables.items():
        outbox.give(shed_output_name(stream), table)
    for query, kind, packed, note in outbox.rows():
        yield task, seq, query, kind, packed, note
    about = step_note(result, read, payload, shed, kept) | {
        "state": group.watch.state(result.finished),
        "later": {} if later is None else later.note(spec.slices[task].queries[1:]),
    }
    yield task, seq, None, "step", None, json.dumps(about)


def _with_checksum(piece: Range, rows: Rows) -> dict[str, Any]:
    """Returns a range as the manifest records it: a replay must read the same content."""
    return replace(piece, checksum=rows.checksum).to_json()


def _receiver(spec: RunSpec, outbox: Outbox, read: ReadRanges, admitted_us: int) -> Give:
    """Returns the function that receives the kernel's results. Rows for another node get their arrival times."""
    sent = {query.name for query in spec.app.queries if query.sent}
    if not sent:
        return outbox.give
    stamper = ArrivalStamper(read, admitted_us)
    return lambda query, table: outbox.give(query, stamper.stamped(table) if query in sent else table)


def _rows(read: ReadRanges) -> int:
    return sum(rows.table.num_rows for _, rows in read)


def _inputs(read: ReadRanges) -> dict[str, StreamInput]:
    """Merges the ranges of each stream into one input of the kernel."""
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
    return inputs


@lru_cache(maxsize=4)
def _spec(text: str) -> RunSpec:
    return RunSpec.decode(text)
