"""Queues of named streams, and links between them over Arrow Flight."""

from kigen.links.acker import Acker
from kigen.links.address import Address, Security
from kigen.links.client import Link, Received
from kigen.links.connection import Patience
from kigen.links.copies import Copies, link_tree
from kigen.links.errors import (
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
from kigen.links.fetching import LIST, Fetched, fetch, intact, told_of
from kigen.links.queue import MAIN, Appended, Queue
from kigen.links.reading import Reading
from kigen.links.record import ENDED, NO_PROGRESS
from kigen.links.relay import Following, Relay, Watch
from kigen.links.server import LinkServer
from kigen.links.settings import QueueSettings
from kigen.links.software import software
from kigen.links.tokens import NEIGHBOUR, OPERATOR, READER, REPLICA, STATUS, TOKEN, read_secret, secret_in, write_private
from kigen.links.writer import LinkWriter

__all__ = [
    "ENDED",
    "LIST",
    "MAIN",
    "NEIGHBOUR",
    "NO_PROGRESS",
    "OPERATOR",
    "READER",
    "REPLICA",
    "STATUS",
    "TOKEN",
    "Acker",
    "Address",
    "Appended",
    "BadRequest",
    "Copies",
    "CorruptLog",
    "Fenced",
    "Fetched",
    "Following",
    "Link",
    "LinkDown",
    "LinkError",
    "LinkRefused",
    "LinkServer",
    "LinkWriter",
    "NotTold",
    "OffsetAhead",
    "OffsetTrimmed",
    "Patience",
    "Queue",
    "QueueClosed",
    "QueueFull",
    "QueueInUse",
    "QueueSettings",
    "Reading",
    "Received",
    "Relay",
    "SchemaMismatch",
    "Security",
    "SequenceGap",
    "StorageFailed",
    "UnknownCopy",
    "UnknownStream",
    "Watch",
    "fetch",
    "intact",
    "link_tree",
    "read_secret",
    "secret_in",
    "software",
    "told_of",
    "write_private",
]
