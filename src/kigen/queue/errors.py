"""Errors of queues and links: what was required, what was there, what to do. They carry data, survive pickling, and
travel as JSON.

Invariant: `from_json(error.to_json())` is an error of the same class with the same data; an unknown class becomes a
plain LinkError.
"""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]  # JSON


class QueueError(ValueError):
    """Base of all. `data` holds the numbers of the message."""

    def __init__(self, message: str, data: Data | None = None) -> None:
        super().__init__(message, data or {})
        self.message, self.data = message, data or {}

    def __str__(self) -> str:
        return self.message

    def to_json(self) -> Data:
        return {"error": type(self).__name__, "message": self.message, "data": self.data}


class QueueFull(QueueError):
    """The bound is reached and nobody made room in time. `data`: kept_bytes, kept_tuples, waiting_for (reader ->
    ack)."""


class Fenced(QueueError):
    """Somebody with a higher epoch took over. `data`: epoch (the highest), given."""


class SequenceGap(QueueError):
    """Tuples before this sequence number are missing. `data`: expected, given."""


class OffsetTrimmed(QueueError):
    """The offset is no longer kept. `data`: start (the first kept), given."""


class TrimNoteMissing(QueueError):
    """Tuples were let go up to `start`, and what stands for them is not known here yet. `data`: start, given."""


class OffsetAhead(QueueError):
    """The offset lies beyond the end: the queue lost what it had, or it is another one. `data`: end, given."""


class SchemaMismatch(QueueError):
    """The columns are not those of the queue."""


class UnknownStream(QueueError):
    """No queue of that name here. `data`: streams."""


class UnknownCopy(QueueError):
    """A copy of files that is not there any more."""


class CorruptLog(QueueError):
    """A segment is damaged where no kill could have damaged it. `data`: file, position, offset."""


class StorageFailed(QueueError):
    """The disk refused (full, broken). What was not acknowledged was not kept."""


class QueueInUse(QueueError):
    """Another process has the queue open."""


class QueueClosed(QueueError):
    """The queue, or its server, is closing."""


class BadRequest(QueueError):
    """A request that no client of this version sends."""


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
