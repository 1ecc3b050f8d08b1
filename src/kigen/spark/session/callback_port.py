"""Restricts the port on which Spark calls back into this process (foreachBatch) to processes of the same user.

Every other port of a local Spark requires a secret. This one does not: PySpark gives its callback server no secret, and
the JVM would not send one. So the guard looks up each connection in the kernel's table and serves only sockets of this
user. Invariant: no byte is read from another user's connection. Where there is no such table (not Linux), all
connections are served, as without Kigen.
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
    """Makes the callback server of a gateway refuse other users. The server must not be running yet."""
    if isinstance(gateway, ClientServer):
        gateway._create_callback_server = MethodType(_same_user_server, gateway)


def _same_user_server(gateway: Any, parameters: Any) -> Any:
    return _SameUserServer(
        gateway._gateway_client, gateway.java_parameters, gateway.python_parameters, gateway.gateway_property
    )


class _SameUserServer(PythonServer):  # type: ignore[misc]  # py4j counts as untyped
    def _create_connection(self, connected: Any, stream: Any) -> Any:
        return super()._create_connection(connected, stream) if is_same_user(connected) else _Refused(connected, stream)


class _Refused:
    """Stands in for a connection that is refused: writes nothing, reads nothing."""

    def __init__(self, connected: Any, stream: Any) -> None:
        self._connected, self._stream = connected, stream

    def start(self) -> None:
        _log.warning("refused a connection from a process of another user")
        self.close()

    def close(self, *_: object) -> None:
        self._stream.close()
        self._connected.close()

    shutdown_socket = close


def is_same_user(connected: socket.socket) -> bool:
    """Checks whether the other end of a local connection belongs to this user."""
    if not any(table.exists() for table in _TABLES):
        return True
    return owner_of(connected.getpeername()[1], connected.getsockname()[1]) == os.getuid()


def owner_of(port: int, other: int) -> int | None:
    """Returns the id of the user whose socket is bound to `port` and connected to `other`."""
    for table in _TABLES:
        if not table.exists():
            continue
        for line in table.read_text().splitlines()[1:]:
            words = line.split()
            if int(words[1].rpartition(":")[2], 16) == port and int(words[2].rpartition(":")[2], 16) == other:
                return int(words[7])
    return None
