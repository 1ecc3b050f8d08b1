"""Errors of queues and links: what was required, what was there, what to do. They carry data, survive pickling, and
travel as JSON.

Invariant: `from_json(error.to_json())` is an error of the same class with the same data; an unknown class becomes a
plain LinkError.
"""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]  # JSON


class LinkError(ValueError):
    """Base of all. `data` holds the numbers of the message."""

    def __init__(self, message: str, data: Data | None = None) -> None:
        super().__init__(message, data or {})
        self.message, self.data = message, data or {}

    def __str__(self) -> str:
        return self.message

    def to_json(self) -> Data:
        return {"error": type(self).__name__, "message": self.message, "data": self.data}


class QueueFull(LinkError):
    """The bound is reached and nobody made room in time. `data`: kept_bytes, kept_tuples, waiting_for (reader ->
    ack)."""


class Fenced(LinkError):
    """Somebody with a higher epoch took over. `data`: epoch (the highest), given."""


class SequenceGap(LinkError):
    """Tuples before this sequence number are missing. `data`: expected, given."""


class OffsetTrimmed(LinkError):
    """The offset is no longer kept. `data`: start (the first kept), given."""


class NotTold(LinkError):
    """Tuples were let go up to `start`, and what stands for them is not known here yet. `data`: start, given."""


class OffsetAhead(LinkError):
    """The offset lies beyond the end: the queue lost what it had, or it is another one. `data`: end, given."""


class SchemaMismatch(LinkError):
    """The columns are not those of the queue."""


class UnknownStream(LinkError):
    """No queue of that name here. `data`: streams."""


class UnknownCopy(LinkError):
    """A copy of files that is not there any more."""


class CorruptLog(LinkError):
    """A segment is damaged where no kill could have damaged it. `data`: file, position, offset."""


class StorageFailed(LinkError):
    """The disk refused (full, broken). What was not acknowledged was not kept."""


class QueueInUse(LinkError):
    """Another process has the queue open."""


class QueueClosed(LinkError):
    """The queue, or its server, is closing."""


class BadRequest(LinkError):
    """A request that no client of this version sends."""


class LinkDown(LinkError):
    """The other side did not answer within the time given to reconnect."""


class LinkRefused(LinkError):
    """An address that needs a token and TLS, or credentials the server does not accept."""


_CLASSES: dict[str, type[LinkError]] = {
    c.__name__: c
    for c in (
        QueueFull,
        Fenced,
        SequenceGap,
        OffsetTrimmed,
        NotTold,
        OffsetAhead,
        SchemaMismatch,
        UnknownStream,
        UnknownCopy,
        CorruptLog,
        StorageFailed,
        QueueInUse,
        QueueClosed,
        BadRequest,
        LinkDown,
        LinkRefused,
    )
}


def from_json(value: Data) -> LinkError:
    made = _CLASSES.get(str(value.get("error")), LinkError)
    data = value.get("data")
    return made(str(value.get("message")), data if isinstance(data, dict) else {})
