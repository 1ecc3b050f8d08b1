"""Decides whether a batch is new or a replay, and checks that a replay reads the same input as the first time.

Spark repeats the last batch after a restart if its commit was not recorded. The outputs hold that batch already, so the
sink only rebuilds state. Invariant: a batch is skipped only if it ends where the sink log says and its input files
still have the same content. Cost: comparing a few JSON values per batch.
"""

from __future__ import annotations

import json
from typing import Any

from kigen.connectors import InputError
from kigen.durable import DamagedFile
from kigen.spark.sink.sink_log import SinkRecord

StepNotes = list[tuple[str, dict[str, Any]]]  # (task, what its step reports), per step of a batch
_OLD_FILE = "Put the old file back, or start from the beginning with a new --checkpoint directory"
_NEW_CHECKPOINT = "Restore the checkpoint from a copy, or start from the beginning with a new --checkpoint directory"


def is_new_batch(record: SinkRecord, batch: int, notes: StepNotes | None, checkpoint: str) -> bool:
    """Checks whether the outputs lack the batch.

    `notes` None: it is an epoch. Its round log, which Spark does not have, says what it contains. Raises DamagedFile if
    it is neither the next batch nor the recorded one, InputError if its input has changed.
    """
    if batch == record.batch + 1:
        return True
    if batch == record.batch and notes is None:
        return False
    ends = ends_of(notes or [])
    if batch == record.batch and (record.ends is None or _equal_as_json(record.ends, ends)):
        _require_same_input(record, notes or [])
        return False
    raise DamagedFile(
        f"{checkpoint}/sink/{record.batch}.json",
        f"it records that batch {record.batch} ended at {json.dumps(record.ends or record.positions)}, but Spark's "
        f"batch {batch} ends at {json.dumps(ends)}: the two logs belong to different runs, or one of them lost its end",
        _NEW_CHECKPOINT,
    )


def _require_same_input(record: SinkRecord, notes: StepNotes) -> None:
    """Raises InputError if an input file has changed: state must be built from the rows whose results are written."""
    for stream, found in checksums_of(notes).items():
        for recorded, read in zip(record.checksums.get(stream, []), found, strict=False):
            if recorded != read:
                file, place = recorded[:2]
                changed = f"has changed since batch {record.batch} read {place} of stream '{stream}'"
                raise InputError(f"{changed}, whose results are written. {_OLD_FILE}", file)


def ends_of(notes: StepNotes) -> dict[str, dict[str, Any]]:
    """Returns where each task's part of the batch ends in each stream."""
    return {task: note["positions"] for task, note in notes}


def checksums_of(notes: StepNotes) -> dict[str, list[Any]]:
    """Returns [file, range, checksum] of what the batch read, per stream. All tasks read the same ranges of a file."""
    found: dict[str, list[Any]] = {}
    for _, note in notes:
        found |= json.loads(json.dumps(note.get("checksums", {})))
    return found


def _equal_as_json(recorded: dict[str, dict[str, Any]], found: dict[str, dict[str, Any]]) -> bool:
    return bool(json.loads(json.dumps(recorded)) == json.loads(json.dumps(found)))
