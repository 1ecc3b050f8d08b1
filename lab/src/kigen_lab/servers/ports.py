"""Hands out ports of this machine for servers that are told their port before they bind it.

A port that the kernel hands out (`bind` to port 0) may become another process's before the server binds it. These ports
lie below those that the kernel hands out, and a counter in a file that all processes lock gives each of them once.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from pathlib import Path

_FIRST, _END = 20_000, 32_000  # Linux hands out those from 32,768 on


def free_ports(count: int) -> list[int]:
    """Returns ports in a row that nobody uses, and that nobody else gets from here for a long time."""
    counter = os.open(Path(tempfile.gettempdir()) / f"kigen-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(counter, fcntl.LOCK_EX)
        at = int(os.pread(counter, 20, 0) or 0)
        found: list[int] = []
        for tried in range(2 * (_END - _FIRST)):
            port = _FIRST + (at + tried) % (_END - _FIRST)
            if not _is_free(port) or (found and port != found[-1] + 1):
                found.clear()
                continue
            found.append(port)
            if len(found) == count:
                os.pwrite(counter, f"{(at + tried + 1) % (_END - _FIRST):<20}".encode(), 0)
                return found
    finally:
        os.close(counter)
    raise OSError(f"{count} free ports in a row required between {_FIRST} and {_END}; found none: end other programs")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
