"""Errors of queues. Each one says what was required, what was found and what to do.

The errors carry data, survive pickling and travel as JSON. Invariant: `from_json(error.to_json())` is an error of the
same class with the same data. An unknown class name becomes a plain QueueError.
"""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]  # JSON


class QueueError(ValueError):
    """Base class of all errors of queues and links. `data` holds the numbers of the message."""

    def __init__(self, message: str, data: Data | None = None) -> None:
        super().__init__(message, data or {})
        self.message, self.data = message, data or {}

    def __str__(self) -> str:
        return self.message

    def to_json(self) -> Data:
        """Returns the class name, the message and the data."""
        return {"error": type(self).__name__, "message": self.message, "data": self.data}


class QueueFull(QueueError):
    """The queue is at its bound, and no reader made room in time. `data`: kept_bytes, kept_tuples, waiting_for (reader
    -> ack).
    """


class Fenced(QueueError):
    """A producer or reader with a higher epoch took over. `data`: epoch (the highest), given."""


class SequenceGap(QueueError):
    """Tuples before this sequence number are missing. `data`: expected, given."""


class OffsetTrimmed(QueueError):
    """The offset was trimmed. `data`: start (the first offset kept), given."""


class TrimNoteMissing(QueueError):
    """A reader skips a trimmed range, and the note that describes the range is not known here yet. `data`: start,
    given.

    The note comes with the ack at which the range ends (`kigen.queue.producers_and_readers`).
    """


class OffsetAhead(QueueError):
    """The offset lies beyond the end: the queue lost tuples, or it is a different queue. `data`: end, given."""


class SchemaMismatch(QueueError):
    """The columns differ from those of the queue."""


class UnknownStream(QueueError):
    """The server has no queue of that name. `data`: streams."""


class UnknownCopy(QueueError):
    """The requested copy of files does not exist any more."""


class CorruptLog(QueueError):
    """A segment is damaged in a place that a kill cannot damage. `data`: file, position, offset."""


class StorageFailed(QueueError):
    """The disk refused a write (it is full or broken). Tuples that were not acknowledged are not stored."""


class QueueInUse(QueueError):
    """Another process has the queue open."""


class QueueClosed(QueueError):
    """The queue or its server is closing."""


class BadRequest(QueueError):
    """The request cannot come from a client of this version."""


_CLASSES: dict[str, type[QueueError]] = {
    c.__name__: c
    for c in (
        QueueFull,
        Fenced,
        SequenceGap,
        OffsetTrimmed,
        TrimNoteMissing,
        OffsetAhead,
        SchemaMismatch,
        UnknownStream,
        UnknownCopy,
        CorruptLog,
        StorageFailed,
        QueueInUse,
        QueueClosed,
        BadRequest,
    )
}


def from_json(value: Data, made: type[QueueError] | None = None) -> QueueError:
    """Restores an error from JSON, as `made` if given. An unknown class name gives a plain QueueError."""
    made = made or _CLASSES.get(str(value.get("error")), QueueError)
    data = value.get("data")
    return made(str(value.get("message")), data if isinstance(data, dict) else {})
