"""Messages other than blocks: requests and answers as JSON with checked fields, acks as three numbers.

Nothing is unpickled. Invariant: a request has exactly the fields of its kind, each with the right type and within its
bounds; anything else is a BadRequest. Waits are shortened to the longest one that a server allows: a client that wants
to wait longer asks again.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from typing import Any

import pyarrow.flight as fl

from kigen.links.errors import from_wire
from kigen.queue.errors import BadRequest, Data, QueueClosed, QueueError
from kigen.queue.record import NO_PROGRESS

VERSION = 1
_LONGEST = 64 * 1024  # bytes per request
_INFO = 4096  # bytes per error, which travels in a header
_ACK = struct.Struct("<qqq")
LONGEST_NAME = 128
LONGEST_NOTE = 4096
_COUNT = (0, 2**62 - 1)  # range of offsets, epochs and sequence numbers
_BOUNDS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("offset", "at", "epoch", "copy"), _COUNT),
    "max_tuples": (1, 1 << 32),
    "max_bytes": (1, 1 << 28),
    "min_tuples": (0, 2**62 - 1),
}
_LONGEST_S = {"wait_s": 3600.0, "follow_s": 60.0}
_MOST = 2000  # entries per list
Spec = dict[str, tuple[tuple[type, ...], Any]]  # field -> types, default (REQUIRED: none)
REQUIRED = object()
_INT, _MAYBE_INT, _TEXT, _BOOL, _NUMBER = (int,), (int, type(None)), (str,), (bool,), (int, float)

APPEND: Spec = {
    "stream": (_TEXT, REQUIRED),
    "producer": (_TEXT, REQUIRED),
    "epoch": (_INT, REQUIRED),
    "wait_s": (_NUMBER, 3600.0),
    "call": (_TEXT, ""),  # names this call, so that the client can cancel it with `leave`
}
READ: Spec = {
    "stream": (_TEXT, REQUIRED),
    "reader": (_TEXT, ""),
    "offset": (_INT, REQUIRED),
    "max_tuples": (_INT, 1 << 20),
    "max_bytes": (_INT, 1 << 26),
    "min_tuples": (_INT, 1),
    "wait_s": (_NUMBER, 0.0),
    "follow_s": (_NUMBER, 0.0),  # keep sending for this long; 0: answer once
    "known_progress_us": (_MAYBE_INT, None),
    "skip_trimmed": (_BOOL, False),
    "may_be_ahead": (_BOOL, False),
    "compress": (_TEXT, "none"),
}
_NAMED: Spec = {"stream": (_TEXT, REQUIRED), "epoch": (_MAYBE_INT, None)}
ACTIONS: dict[str, Spec] = {
    "hello": {"version": (_INT, REQUIRED)},
    "streams": {},
    "about": {},
    "leave": {"call": (_TEXT, REQUIRED)},
    "status": {"stream": (_TEXT, REQUIRED)},
    "open_producer": {**_NAMED, "name": (_TEXT, REQUIRED), "counts": (_TEXT, "tuples"), "at": (_MAYBE_INT, None)},
    "progress": {**_NAMED, "producer": (_TEXT, REQUIRED), "progress_us": (_INT, REQUIRED)},
    "skip": {**_NAMED, "producer": (_TEXT, REQUIRED), "offset": (_INT, REQUIRED)},
    "open_reader": {**_NAMED, "name": (_TEXT, REQUIRED), "at": (_MAYBE_INT, None)},
    "ack": {**_NAMED, "reader": (_TEXT, REQUIRED), "offset": (_INT, REQUIRED), "note": (_TEXT, "")},
    "require": {"stream": (_TEXT, REQUIRED), "readers": ((list,), REQUIRED)},
    "trim": {"stream": (_TEXT, REQUIRED), "offset": (_INT, REQUIRED)},
    "copy_news": {},
    "copy_list": {"copy": (_INT, REQUIRED)},
    "copy_pieces": {"copy": (_INT, REQUIRED), "pieces": ((list,), REQUIRED), "compress": (_TEXT, "none")},
    "copy_done": {"copy": (_INT, REQUIRED)},
}


@dataclass(frozen=True, slots=True)
class Ack:
    """Confirms a unit: the producer's next sequence number, and the range of offsets that the queue holds."""

    next: int
    end: int
    start: int

    def pack(self) -> bytes:
        return _ACK.pack(self.next, self.end, self.start)

    @staticmethod
    def unpack(data: Any) -> Ack:
        return Ack(*_ACK.unpack(bytes(data)))


CLOSING = Ack(-1, -1, -1)  # not an ack: the server asks its clients to end their calls


def parse(data: Any, spec: Spec) -> dict[str, Any]:
    """Returns the checked fields of a request, with defaults for those that are missing."""
    if len(data) > _LONGEST:
        raise BadRequest(f"the request has {len(data):,} bytes: at most {_LONGEST:,} are allowed")
    try:
        given = json.loads(bytes(data) or b"{}")
    except (ValueError, RecursionError) as error:
        raise BadRequest("the request is not JSON") from error
    if not isinstance(given, dict) or not given.keys() <= spec.keys():
        raise BadRequest(f"a request may have only these fields: {', '.join(spec)}")
    found: dict[str, Any] = {}
    for name, (types, default) in spec.items():
        value = given.get(name, default)
        right = isinstance(value, types) and (not isinstance(value, bool) or bool in types)
        if value is REQUIRED or not right:
            raise BadRequest(f"field '{name}' of a request: {' or '.join(t.__name__ for t in types)} is required")
        if isinstance(value, int) and not NO_PROGRESS <= value < 2**63:
            raise BadRequest(f"field '{name}' of a request does not fit 64 bits")
        found[name] = _bounded(name, value)
    return found


def _bounded(name: str, value: Any) -> Any:
    """Returns the value if it is within the bounds of its field. Waits are shortened instead of refused."""
    if name in _BOUNDS and value is not None:
        least, most = _BOUNDS[name]
        if not least <= value <= most:
            raise BadRequest(f"field '{name}' of a request is {value}: {least} to {most} are allowed")
    elif name in _LONGEST_S:
        if not math.isfinite(value) or value < 0:
            raise BadRequest(f"field '{name}' of a request is {value}: 0 or more seconds are required")
        return min(float(value), _LONGEST_S[name])
    elif isinstance(value, str) and len(value) > (LONGEST_NOTE if name == "note" else LONGEST_NAME):
        raise BadRequest(
            f"field '{name}' of a request has {len(value):,} characters: at most {LONGEST_NAME} are allowed"
        )
    elif isinstance(value, str) and name != "note" and not value.isprintable():
        raise BadRequest(f"field '{name}' of a request contains unprintable characters")
    elif isinstance(value, list) and len(value) > _MOST:
        raise BadRequest(f"field '{name}' of a request has {len(value):,} entries: at most {_MOST:,} are allowed")
    return value


def request(**fields: Any) -> bytes:
    """Encodes a request."""
    return json.dumps(fields).encode()


def as_flight(error: QueueError) -> Exception:
    """Returns the Flight error for an error. A closing queue is reported as unavailable, so that the client tries
    again.
    """
    info = json.dumps(error.to_json()).encode()
    if len(info) > _INFO:
        info = json.dumps({"error": type(error).__name__, "message": error.message[:1024], "data": {}}).encode()
    kind = fl.FlightUnavailableError if isinstance(error, QueueClosed) else fl.FlightServerError
    raised: Exception = kind(error.message[:1024], extra_info=info)
    return raised


def from_flight(error: Any) -> QueueError | None:
    """Returns the error that the other side raised, or None if the link itself failed."""
    info = getattr(error, "extra_info", None)
    if not info:
        return None
    try:
        value: Data = json.loads(info)
    except ValueError:
        return None
    found = from_wire(value) if isinstance(value, dict) else None
    return None if isinstance(found, QueueClosed) else found
