"""A link that can be cut: a TCP proxy on loopback. `silent`: what is sent is swallowed, as by a network that drops
everything."""

from __future__ import annotations

import select
import socket
import threading


class Cuttable:
    def __init__(self, to: str) -> None:
        host, _, port = to.rpartition(":")
        self._to = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self.silent = self._refusing = self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()
        threading.Thread(target=self._carry, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """Connections break, and new ones are not made."""
        self._refusing = True
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                end.close()

    def heal(self) -> None:
        """What was swallowed is lost, so whatever was open then is closed."""
        self.cut()
        self.silent = self._refusing = False

    def close(self) -> None:
        self._closed = True
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                here.close()
                continue
            try:
                there = socket.create_connection(self._to, 5)
            except OSError:
                here.close()
                continue
            with self._lock:
                self._pairs.append((here, there))

    def _carry(self) -> None:
        while not self._closed:
            with self._lock:
                other = {a: b for pair in self._pairs for a, b in (pair, pair[::-1])}
            try:
                ready = select.select(list(other), [], [], 0.02)[0]
            except (OSError, ValueError):  # closed meanwhile
                continue
            for end in ready:
                try:
                    data = end.recv(1 << 16)
                    if data and not self.silent:
                        other[end].sendall(data)
                except OSError:
                    data = b""
                if not data:
                    self._drop(end, other[end])

    def _drop(self, *ends: socket.socket) -> None:
        with self._lock:
            self._pairs = [pair for pair in self._pairs if ends[0] not in pair]
        for end in ends:
            end.close()
