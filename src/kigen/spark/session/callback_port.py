"""The port on which Spark calls back into this process (foreachBatch), kept for this user's processes.

Every other port of a local Spark asks for a secret. This one does not: PySpark gives its callback server none, and the
JVM would not send one. So whoever connects is looked up in the kernel's table of connections: only sockets of this user
are served. Invariant: of another user's connection not a byte is read. Where there is no such table (not Linux), all
are served, as without Kigen.
"""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from types import MethodType
from typing import Any

from py4j.clientserver import ClientServer, PythonServer

_log = logging.getLogger(__name__)
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def guard_callbacks(gateway: Any) -> None:
    """From now on; the server must not have been started yet."""
    if isinstance(gateway, ClientServer):
        gateway._create_callback_server = MethodType(_guarded_server, gateway)


def _guarded_server(gateway: Any, parameters: Any) -> Any:
    return _Guarded(
        gateway._gateway_client, gateway.java_parameters, gateway.python_parameters, gateway.gateway_property
    )


class _Guarded(PythonServer):  # type: ignore[misc]  # py4j counts as untyped
    def _create_connection(self, connected: Any, stream: Any) -> Any:
        return super()._create_connection(connected, stream) if is_ours(connected) else _Refused(connected, stream)


class _Refused:
    """In place of a connection: says nothing, reads nothing."""

    def __init__(self, connected: Any, stream: Any) -> None:
        self._connected, self._stream = connected, stream

    def start(self) -> None:
        _log.warning("a process of another user tried to call this one, and was refused")
        self.close()

    def close(self, *_: object) -> None:
        self._stream.close()
        self._connected.close()

    shutdown_socket = close


def is_ours(connected: socket.socket) -> bool:
    """Whether the other end of a connection on this machine belongs to this user."""
    if not any(table.exists() for table in _TABLES):
        return True
    return owner_of(connected.getpeername()[1], connected.getsockname()[1]) == os.getuid()


def owner_of(port: int, other: int) -> int | None:
    """The user (number) whose socket is bound to `port` and connected to `other`."""
    for table in _TABLES:
        if not table.exists():
            continue
        for line in table.read_text().splitlines()[1:]:
            words = line.split()
            if int(words[1].rpartition(":")[2], 16) == port and int(words[2].rpartition(":")[2], 16) == other:
                return int(words[7])
    return None
