"""Opening a queue's files: one process at a time (a lock that a kill releases), then states and blocks replayed in the
order of writing.

Invariant: what comes out is what was there when the last append returned, and maybe an append that was written but not
yet answered.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from kigen.durable import make_directories, remove
from kigen.queue.errors import BadRequest, CorruptLog, QueueInUse, SchemaMismatch
from kigen.queue.producers_and_readers import ProducersAndReaders
from kigen.queue.record import NO_PROGRESS
from kigen.queue.recover import recover
from kigen.queue.segment import Segment
from kigen.queue.settings import QueueSettings, require_name, require_plain_columns
from kigen.queue.store import StoredBlock

FORMAT = 1
_LONGEST_STATE = 1 << 20


class LockFile:
    """Held while the queue is open; nothing to hold without a folder."""

    def __init__(self, folder: Path | None) -> None:
        self._fd = -1
        if folder is None:
            return
        self._fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            raise QueueInUse(f"{folder}: another process has this queue open; end it first") from error

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@dataclass
class OpenedFiles:
    lock: LockFile
    head: dict[str, Any]  # what stands in the first record of every segment beside the state
    parties: ProducersAndReaders | None = None
    blocks: list[StoredBlock] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    progress_before: int = NO_PROGRESS
    cut_bytes: int = 0


def open_files(name: str, schema: pa.Schema, settings: QueueSettings) -> OpenedFiles:
    require_name(name)
    require_plain_columns(schema)
    head = {"format": FORMAT, "stream": name, "schema": schema_text(schema)}
    folder = settings.queue_folder(name)
    if folder is None:
        return OpenedFiles(LockFile(None), head)
    make_directories(folder, sync=settings.durable and settings.fsync != "never")
    opened = OpenedFiles(LockFile(folder), head)
    try:
        if settings.durable:
            _replay(opened, folder, schema, settings.repair)
        else:
            for _, path in Segment.existing(folder):
                remove(path)
    except BaseException:
        opened.lock.release()
        raise
    return opened


def schema_text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


def schema_of(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))


def state_of(payload: bytes) -> tuple[dict[str, Any], pa.Schema]:
    """What a server says of its queue, and the columns there. It may be anybody's: checked before anything is read by
    it."""
    try:
        if len(payload) > _LONGEST_STATE:
            raise ValueError(f"{len(payload):,} bytes")
        told: dict[str, Any] = json.loads(payload)
        if not all(isinstance(told[name], int) for name in ("start", "end")) or not isinstance(told["note"], str):
            raise ValueError("start, end and note are required")
        schema = schema_of(told["schema"])
        require_plain_columns(schema)
    except (ValueError, KeyError, TypeError, RecursionError, OSError, pa.ArrowException) as error:
        raise BadRequest(f"the server says nothing readable of its stream: {str(error)[:200]}") from error
    return told, schema


def _replay(opened: OpenedFiles, folder: Path, schema: pa.Schema, repair: bool) -> None:
    found = recover(folder, repair)
    opened.segments, opened.cut_bytes = found.segments, found.cut_bytes
    for item in found.records:
        if item.state is not None:
            _check_head(item.state, folder, schema)
            opened.parties = ProducersAndReaders.from_json(item.state["parties"])
            promised = opened.parties.progress_us
            if opened.blocks:
                opened.blocks[-1].progress_us = promised
            else:
                opened.progress_before = promised
        elif opened.parties is None:
            raise CorruptLog(
                f"{item.segment.path}: does not begin with a state", {"file": str(item.segment.path), "position": 0}
            )
        else:
            opened.parties.appended(item.record)
            opened.blocks.append(
                StoredBlock(item.record, opened.parties.progress_us, None, item.segment, item.position)
            )


def _check_head(state: dict[str, Any], folder: Path, schema: pa.Schema) -> None:
    if "format" in state and state["format"] != FORMAT:
        raise SchemaMismatch(
            f"{folder}: format {state['format']}; this version reads format {FORMAT}: drain it with the Kigen that "
            "wrote it"
        )
    if "schema" in state and not schema_of(state["schema"]).equals(schema):
        raise SchemaMismatch(f"{folder}: holds other columns than the app declares now: drain or remove it first")
