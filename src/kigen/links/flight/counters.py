"""Bytes of links. **Payload**: blocks as they are sent, compressed or not. **Wire**: what TCP carried, all framing (and
TLS) included.

Payload is counted where blocks pass. The wire is asked of the kernel (TCP_INFO of the connection's socket, Linux), so
it is what was really sent, acknowledgements of Flight and gRPC included, retransmissions excluded. Elsewhere it is 0
and `measured` is False. Cost: two additions a block; one system call a question about the wire.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from dataclasses import dataclass, field
from pathlib import Path

_TCP_BYTES = struct.Struct("<QQ")  # tcpi_bytes_acked, tcpi_bytes_received
_TCP_BYTES_AT = 120
_SOCKETS = Path("/proc/self/fd")


@dataclass
class TrafficCounter:
    tuples: int = 0
    messages: int = 0
    payload_bytes: int = 0
    plain_bytes: int = 0  # before compression, where it is known
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, tuples: int, payload_bytes: int, plain_bytes: int) -> None:
        with self._lock:
            self.tuples += tuples
            self.messages += 1
            self.payload_bytes += payload_bytes
            self.plain_bytes += plain_bytes

    def to_json(self) -> dict[str, int]:
        names = ("tuples", "messages", "payload_bytes", "plain_bytes")
        with self._lock:
            return {name: getattr(self, name) for name in names}


_MOST_NAMES = 1024


class TrafficCounters:
    """A tally for each name; beyond some, names share one: whoever calls chooses its name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tallies: dict[str, TrafficCounter] = {}

    def of(self, name: str) -> TrafficCounter:
        with self._lock:
            if name not in self._tallies and len(self._tallies) >= _MOST_NAMES:
                name = "others"
            return self._tallies.setdefault(name, TrafficCounter())

    def to_json(self) -> dict[str, dict[str, int]]:
        with self._lock:
            return {name: tally.to_json() for name, tally in self._tallies.items()}


@dataclass(frozen=True)
class WireBytes:
    sent: int
    received: int
    measured: bool


class WireMeter:
    """Bytes of one client's connections, one after the other; a connection that broke counts as far as it was last
    looked at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._past_sent = self._past_received = 0
        self._port = 0  # local port of the connection in use
        self._last = (0, 0)
        self._measured = False

    def connected(self, local_port: int) -> None:
        with self._lock:
            if local_port == self._port:
                return
            self._past_sent += self._last[0]
            self._past_received += self._last[1]
            self._port, self._last = local_port, (0, 0)

    def read(self) -> WireBytes:
        with self._lock:
            found = _tcp_bytes(self._port) if self._port else None
            if found is not None:
                self._last, self._measured = found, True
            return WireBytes(self._past_sent + self._last[0], self._past_received + self._last[1], self._measured)


def _tcp_bytes(local_port: int) -> tuple[int, int] | None:
    """Bytes sent (and acknowledged) and received by this process's connection from that port."""
    if not hasattr(socket, "TCP_INFO") or not _SOCKETS.is_dir():
        return None
    for entry in _SOCKETS.iterdir():
        try:
            if not os.readlink(entry).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as connection:
                if connection.type != socket.SOCK_STREAM or connection.family not in (socket.AF_INET, socket.AF_INET6):
                    continue
                if connection.getsockname()[1] != local_port or not connection.getpeername():
                    continue
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                if len(info) < _TCP_BYTES_AT + _TCP_BYTES.size:
                    return None
                sent, received = _TCP_BYTES.unpack_from(info, _TCP_BYTES_AT)
                return int(sent), int(received)
        except OSError:
            continue  # closed meanwhile, or a listener
    return None
