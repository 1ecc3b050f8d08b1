"""Opens the files of a queue: takes the lock, then replays states and blocks in the order in which they were written.

One process at a time holds the lock, and a kill releases it. Invariant: the result is the state after the last append
that returned, plus possibly one append that was written but not yet answered.
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
    """Lock that is held while the queue is open. Without a folder there is nothing to lock."""

    def __init__(self, folder: Path | None) -> None:
        self._fd = -1
        if folder is None:
            return
        self._fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            raise QueueInUse(f"{folder}: another process has this queue open; stop that process first") from error

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@dataclass
class OpenedFiles:
    """What `open_files` found."""

    lock: LockFile
    head: dict[str, Any]  # fields of the first record of every segment, besides the state
    clients: ProducersAndReaders | None = None  # its producers and readers
    blocks: list[StoredBlock] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    progress_before: int = NO_PROGRESS
    cut_bytes: int = 0  # torn off the tail of the last segment


def open_files(name: str, schema: pa.Schema, settings: QueueSettings) -> OpenedFiles:
    """Opens or creates the files of a queue. A queue that is not durable removes the files of an earlier run."""
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
    """Encodes a schema as text for JSON."""
    return base64.b64encode(schema.serialize()).decode()


def schema_of(text: str) -> pa.Schema:
    """Decodes a schema from `schema_text`."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))


def state_of(payload: bytes) -> tuple[dict[str, Any], pa.Schema]:
    """Returns the state that a server sent about its queue, and the columns there. The bytes are not trusted, so they
    are checked first.
    """
    try:
        if len(payload) > _LONGEST_STATE:
            raise ValueError(f"{len(payload):,} bytes")
        state: dict[str, Any] = json.loads(payload)
        if not all(isinstance(state[name], int) for name in ("start", "end")) or not isinstance(state["note"], str):
            raise ValueError("start, end and note are required")
        schema = schema_of(state["schema"])
        require_plain_columns(schema)
    except (ValueError, KeyError, TypeError, RecursionError, OSError, pa.ArrowException) as error:
        raise BadRequest(f"the server sent an unreadable state of its stream: {str(error)[:200]}") from error
    return state, schema


def _replay(opened: OpenedFiles, folder: Path, schema: pa.Schema, repair: bool) -> None:
    found = recover(folder, repair)
    opened.segments, opened.cut_bytes = found.segments, found.cut_bytes
    for item in found.records:
        if item.state is not None:
            _check_head(item.state, folder, schema)
            opened.clients = ProducersAndReaders.from_json(item.state["parties"])
            watermark_us = opened.clients.progress_us
            if opened.blocks:
                opened.blocks[-1].progress_us = watermark_us
            else:
                opened.progress_before = watermark_us
        elif opened.clients is None:
            raise CorruptLog(
                f"{item.segment.path}: the segment does not begin with a state record",
                {"file": str(item.segment.path), "position": 0},
            )
        else:
            opened.clients.appended(item.record)
            opened.blocks.append(
                StoredBlock(item.record, opened.clients.progress_us, None, item.segment, item.position)
            )


def _check_head(state: dict[str, Any], folder: Path, schema: pa.Schema) -> None:
    if "format" in state and state["format"] != FORMAT:
        raise SchemaMismatch(
            f"{folder} has format {state['format']}, and this version reads format {FORMAT}: drain the queue with the "
            "version of Kigen that wrote it"
        )
    if "schema" in state and not schema_of(state["schema"]).equals(schema):
        raise SchemaMismatch(f"{folder} holds other columns than the app declares now: drain or remove the queue first")
