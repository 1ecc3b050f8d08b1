"""Messages between a worker and the admission or the sink: JSON with binary parts, over a socket that needs a key.

`multiprocessing.connection` does the framing and proves on both sides that the other one knows the key. Invariant:
nothing is unpickled; a message is JSON and bytes. A message longer than `LONGEST_BYTES` ends the connection. A client
that says nothing holds up no other. Cost: about 0.05 ms per message on one machine.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

from kigen.durable import replace

LONGEST_BYTES = 1 << 30
_AGAIN_S = 0.05
KEY_FILE = "rounds.key"  # below the checkpoint, which all machines of Spark share
Address = str | tuple[str, int]  # path of a Unix socket, or host and port
Message = tuple[dict[str, Any], list[bytes]]
_log = logging.getLogger(__name__)


def make_key(path: Path) -> bytes:
    """Creates the key of a run in a file that only its owner can read."""
    key = secrets.token_bytes(32)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    before = os.umask(0o077)
    try:
        replace(path, key.hex().encode())
    finally:
        os.umask(before)
    return key


def read_key(path: Path) -> bytes:
    return bytes.fromhex(path.read_text(encoding="ascii"))


def send(connection: Connection, header: dict[str, Any], parts: Sequence[bytes] = ()) -> None:
    send_encoded(
        connection, json.dumps({**header, "_parts": [len(part) for part in parts]} if parts else header).encode(), parts
    )


def send_encoded(connection: Connection, text: bytes, parts: Sequence[bytes] = ()) -> None:
    """Sends a header that is JSON already. With parts, it has their lengths as `_parts`."""
    connection.send_bytes(b"".join((len(text).to_bytes(4, "little"), text, *parts)))


def receive(connection: Connection) -> Message:
    """Waits for a message. Raises EOFError or ConnectionError if the other side is gone, ValueError if it is none."""
    try:
        data = connection.recv_bytes(LONGEST_BYTES)
    except ConnectionError:
        raise
    except OSError as error:  # it ended within a message
        raise ConnectionError(str(error)) from error
    size = int.from_bytes(data[:4], "little")
    header = json.loads(data[4 : 4 + size])
    if not isinstance(header, dict):
        raise ValueError("a message begins with an object")
    parts, at = [], 4 + size
    for length in header.pop("_parts", ()):
        parts.append(data[at : at + length])
        at += length
    return header, parts


def connect(address: Address, key: bytes) -> Connection:
    return Client(tuple(address) if isinstance(address, list) else address, authkey=key)


class Server:
    """Accepts connections and serves each one on a thread of its own."""

    def __init__(self, address: Address, key: bytes, serve: Callable[[Connection], None], name: str) -> None:
        if isinstance(address, str):
            Path(address).unlink(missing_ok=True)  # of a process that was killed
        self._listener, self._key = Listener(address, backlog=16), key
        self.address: Address = self._listener.address
        self._serve, self._name, self._closed = serve, name, False
        self._open: set[Connection] = set()
        self._lock = threading.Lock()  # guards `_open`: its connections are not closed yet
        threading.Thread(target=self._accept, name=f"{name}-accept", daemon=True).start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(_AGAIN_S)  # no file descriptor is left, or the client is gone already
                continue
            threading.Thread(target=self._run, args=(connection,), name=self._name, daemon=True).start()

    def _run(self, connection: Connection) -> None:
        with connection:
            with self._lock:
                self._open.add(connection)
            try:
                if self._knows_key(connection):
                    self._serve(connection)
            except (EOFError, ConnectionError):
                return  # the worker is gone; Spark starts another one
            except Exception:
                _log.exception("%s ended a connection", self._name)
            finally:
                with self._lock:
                    self._open.remove(connection)

    def _knows_key(self, connection: Connection) -> bool:
        """Exchanges proofs of the key with a client, in the order in which `Client` does."""
        try:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
        except (AuthenticationError, OSError, EOFError):
            return False
        return True

    def close(self) -> None:
        """Accepts no more connections."""
        self._closed = True
        self._listener.close()

    def disconnect(self) -> None:
        """Ends the connections that are open, so that no client waits for an answer."""
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as known:
                    known.shutdown(socket.SHUT_RDWR)
