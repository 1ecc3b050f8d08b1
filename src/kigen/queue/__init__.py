"""Durable queue of a named stream: append blocks, read by offset, acknowledge, trim."""

from kigen.queue.errors import (
    BadRequest,
    CorruptLog,
    Fenced,
    OffsetAhead,
    OffsetTrimmed,
    QueueClosed,
    QueueError,
    QueueFull,
    QueueInUse,
    SchemaMismatch,
    SequenceGap,
    StorageFailed,
    TrimNoteMissing,
    UnknownCopy,
    UnknownStream,
)
from kigen.queue.pieces import ReadResult
from kigen.queue.queue_appends import MAIN, Appended
from kigen.queue.record import ENDED, NO_PROGRESS
from kigen.queue.settings import QueueSettings
from kigen.queue.stream_queue import Queue

__all__ = [
    "ENDED",
    "MAIN",
    "NO_PROGRESS",
    "Appended",
    "BadRequest",
    "CorruptLog",
    "Fenced",
    "OffsetAhead",
    "OffsetTrimmed",
    "Queue",
    "QueueClosed",
    "QueueError",
    "QueueFull",
    "QueueInUse",
    "QueueSettings",
    "ReadResult",
    "SchemaMismatch",
    "SequenceGap",
    "StorageFailed",
    "TrimNoteMissing",
    "UnknownCopy",
    "UnknownStream",
]
