"""The durable queue of a named stream: append blocks, read by offset, acknowledge, trim."""

from kigen.queue.errors import (
    BadRequest,
    CorruptLog,
    Fenced,
    LinkDown,
    LinkError,
    LinkRefused,
    NotTold,
    OffsetAhead,
    OffsetTrimmed,
    QueueClosed,
    QueueFull,
    QueueInUse,
    SchemaMismatch,
    SequenceGap,
    StorageFailed,
    UnknownCopy,
    UnknownStream,
)
from kigen.queue.pieces import Reading
from kigen.queue.record import ENDED, NO_PROGRESS
from kigen.queue.settings import QueueSettings
from kigen.queue.stream_queue import MAIN, Appended, Queue

__all__ = [
    "ENDED",
    "MAIN",
    "NO_PROGRESS",
    "Appended",
    "BadRequest",
    "CorruptLog",
    "Fenced",
    "LinkDown",
    "LinkError",
    "LinkRefused",
    "NotTold",
    "OffsetAhead",
    "OffsetTrimmed",
    "Queue",
    "QueueClosed",
    "QueueFull",
    "QueueInUse",
    "QueueSettings",
    "Reading",
    "SchemaMismatch",
    "SequenceGap",
    "StorageFailed",
    "UnknownCopy",
    "UnknownStream",
]
