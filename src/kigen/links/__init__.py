"""Links between processes: queues over Arrow Flight, relays, and copies of files."""

from kigen.links.copies.fetched import LIST, Fetched, copy_info, fetch, intact
from kigen.links.copies.offered import OfferedCopies, link_tree
from kigen.links.errors import LinkDown, LinkError, LinkRefused
from kigen.links.flight.acker import Acker
from kigen.links.flight.address import Address, Security
from kigen.links.flight.client import Link, Received
from kigen.links.flight.connection import Patience
from kigen.links.flight.server import LinkServer
from kigen.links.flight.software import software
from kigen.links.flight.tokens import (
    NEIGHBOUR,
    OPERATOR,
    READER,
    REPLICA,
    STATUS,
    TOKEN,
    read_secret,
    secret_in,
    write_private,
)
from kigen.links.flight.writer import LinkWriter
from kigen.links.relay.relay_thread import Relay
from kigen.links.relay.server_watch import Watch

__all__ = [
    "LIST",
    "NEIGHBOUR",
    "OPERATOR",
    "READER",
    "REPLICA",
    "STATUS",
    "TOKEN",
    "Acker",
    "Address",
    "Fetched",
    "Link",
    "LinkDown",
    "LinkError",
    "LinkRefused",
    "LinkServer",
    "LinkWriter",
    "OfferedCopies",
    "Patience",
    "Received",
    "Relay",
    "Security",
    "Watch",
    "copy_info",
    "fetch",
    "intact",
    "link_tree",
    "read_secret",
    "secret_in",
    "software",
    "write_private",
]
