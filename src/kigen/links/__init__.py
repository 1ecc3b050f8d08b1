"""Queues of named streams, and links between them over Arrow Flight."""

from kigen.links.errors import (
    BadRequest,
    CorruptLog,
    Fenced,
    LinkDown,
    LinkError,
    LinkRefused,
    OffsetAhead,
    OffsetTrimmed,
    QueueClosed,
    QueueFull,
    QueueInUse,
    SchemaMismatch,
    SequenceGap,
    StorageFailed,
    UnknownStream,
)
from kigen.links.queue import MAIN, Appended, Queue
from kigen.links.reading import Reading
from kigen.links.record import ENDED, NO_PROGRESS
from kigen.links.settings import QueueSettings

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
    "UnknownStream",
]
