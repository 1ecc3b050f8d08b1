"""Counts the bytes of links. **Payload** is blocks as sent, compressed or not. **Wire** is all that TCP carried.

Payload is counted where blocks pass. The wire bytes come from the kernel (TCP_INFO of the connection's socket, Linux):
they are what was really sent, framing, TLS and the acknowledgements of Flight and gRPC included, retransmissions
excluded. On other systems they are 0 and `measured` is False. Cost: two additions per block; one system call per query
of the wire bytes.
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
    """Traffic of one reader or producer."""

    tuples: int = 0
    messages: int = 0
    payload_bytes: int = 0
    plain_bytes: int = 0  # before compression, where known
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, tuples: int, payload_bytes: int, plain_bytes: int) -> None:
        """Counts one message."""
        with self._lock:
            self.tuples += tuples
            self.messages += 1
            self.payload_bytes += payload_bytes
            self.plain_bytes += plain_bytes

    def to_json(self) -> dict[str, int]:
        names = ("tuples", "messages", "payload_bytes", "plain_bytes")
        with self._lock:
            return {name: getattr(self, name) for name in names}


_MOST_NAMES = 1024  # callers choose their names, so the number of counters is bounded


class TrafficCounters:
    """One counter per name. Beyond a limit, further names share the counter "others"."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[str, TrafficCounter] = {}

    def of(self, name: str) -> TrafficCounter:
        """Returns the counter of a name."""
        with self._lock:
            if name not in self._counters and len(self._counters) >= _MOST_NAMES:
                name = "others"
            return self._counters.setdefault(name, TrafficCounter())

    def to_json(self) -> dict[str, dict[str, int]]:
        with self._lock:
            return {name: counter.to_json() for name, counter in self._counters.items()}


@dataclass(frozen=True)
class WireBytes:
    """Bytes that TCP carried. `measured` is False where the system cannot say."""

    sent: int
    received: int
    measured: bool


class WireMeter:
    """Bytes of one client's successive connections. A broken connection counts up to the last time it was read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._past_sent = self._past_received = 0
        self._port = 0  # local port of the connection in use
        self._last = (0, 0)
        self._measured = False

    def connected(self, local_port: int) -> None:
        """Notes the local port of a new connection."""
        with self._lock:
            if local_port == self._port:
                return
            self._past_sent += self._last[0]
            self._past_received += self._last[1]
            self._port, self._last = local_port, (0, 0)

    def read(self) -> WireBytes:
        """Returns the bytes so far."""
        with self._lock:
            found = _tcp_bytes(self._port) if self._port else None
            if found is not None:
                self._last, self._measured = found, True
            return WireBytes(self._past_sent + self._last[0], self._past_received + self._last[1], self._measured)


def _tcp_bytes(local_port: int) -> tuple[int, int] | None:
    """Returns the bytes sent (and acknowledged) and received by this process's connection from that port."""
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
            continue  # closed in the meantime, or a listener
    return None
