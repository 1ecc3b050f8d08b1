"""Errors of links: the other side is unreachable, or it refuses the caller.

Errors of the queue behind a link arrive as the classes of `kigen.queue.errors`. All of them are a `QueueError`, so one
`except` clause catches both kinds.
"""

from __future__ import annotations

from kigen.queue.errors import Data, QueueError, from_json


class LinkError(QueueError):
    """A call over a link failed."""


class LinkDown(LinkError):
    """The other side did not answer within the time given to reconnect."""


class LinkRefused(LinkError):
    """The address requires a token and TLS, or the server does not accept the credentials."""


_CLASSES = {made.__name__: made for made in (LinkError, LinkDown, LinkRefused)}


def from_wire(value: Data) -> QueueError:
    """Restores an error that another process sent as JSON."""
    made = _CLASSES.get(str(value.get("error")))
    return from_json(value) if made is None else from_json(value, made)
