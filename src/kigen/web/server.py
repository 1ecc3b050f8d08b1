"""Serves a run's web application from a thread of the command's process, until it is closed.

The address is loopback unless the user says otherwise. Invariant: a client that is slow, silent or one of too many
costs a connection for a bounded time, and nothing else. Beyond loopback a proxy must add TLS: the server speaks plain
HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from asyncio import BaseTransport, TimerHandle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from kigen.engine import Run
from kigen.engine.errors import ArgumentError
from kigen.links import Address, LinkRefused
from kigen.web.access import Access
from kigen.web.application import Guarded, make_application
from kigen.web.requests import Limits
from kigen.web.served import Served

DEFAULT_ADDRESS = "127.0.0.1:8642"
_log = logging.getLogger("kigen")
_STARTING_S = 20.0
_CLOSING_S = 3.0
MakeApplication = Callable[[Access, Limits, threading.Event], Guarded]


class WebServer:
    """Server of one run, or of what `served` makes an application of."""

    def __init__(
        self,
        served: Served | MakeApplication,
        folder: Path,
        address: str = DEFAULT_ADDRESS,
        limits: Limits | None = None,
    ) -> None:
        """Starts to serve. The token is in `folder`; port 0 takes any free port."""
        make: MakeApplication = served if callable(served) else lambda *parts: make_application(served, *parts)
        limits = limits or Limits()
        try:
            where = Address.parse(address)
            self.is_loopback = where.is_loopback
        except LinkRefused as error:
            raise ArgumentError(f"--serve: {error}") from error
        self.access, self._closing = Access(folder), threading.Event()
        self._socket = _listen(where)
        self.address = Address(where.host, self._socket.getsockname()[1])
        config = uvicorn.Config(
            make(self.access, limits, self._closing),
            http=_protocol(limits.head_s),
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=limits.connections,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(_CLOSING_S),
        )
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # clients that go away are no news
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="kigen-web", daemon=True)
        self._thread.start()
        self._await_start()

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @property
    def page_link(self) -> str:
        """A link that opens the page once."""
        return f"{self.url}/?{self.access.new_link()}"

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve(sockets=[self._socket]))
        except Exception:  # the run goes on without its server
            _log.exception("the web server at %s ended", self.url)

    def _await_start(self) -> None:
        waited = threading.Event()
        for _ in range(int(_STARTING_S / 0.01)):
            if self._server.started or not self._thread.is_alive():
                break
            waited.wait(0.01)
        if not self._server.started:
            raise ArgumentError(f"--serve: the server at {self.address} did not start")

    def close(self) -> None:
        """Ends the server. Requests under way get a few seconds."""
        self._closing.set()
        self._server.should_exit = True
        self._thread.join(_CLOSING_S + 2)
        if self._thread.is_alive():
            self._server.force_exit = True
            self._thread.join(_CLOSING_S)
        self._socket.close()

    def __enter__(self) -> WebServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(run: Run, address: str = DEFAULT_ADDRESS, limits: Limits | None = None) -> WebServer:
    """Serves a run that was prepared or started. The caller closes the server before it stops the run.

    >>> server = serve(run, "127.0.0.1:0")  # doctest: +SKIP
    """
    return WebServer(run, run.serve_folder, address, limits)


def _listen(where: Address) -> socket.socket:
    try:
        family, kind, number, _, place = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, number)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(place)
            made.listen(128)
        except BaseException:
            made.close()
            raise
    except OSError as error:
        raise ArgumentError(
            f"--serve: cannot listen at {where}: {error.strerror or error}; choose another port, or 0 for any"
        ) from error
    return made


def _protocol(head_s: float) -> type[H11Protocol]:
    """Returns the protocol of a connection, which ends one whose request does not come within `head_s`."""

    class PunctualProtocol(H11Protocol):
        _timer: TimerHandle | None = None

        def connection_made(self, transport: BaseTransport) -> None:
            super().connection_made(transport)  # type: ignore[arg-type]
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            cycle: Any = self.cycle
            if cycle is None or cycle.response_complete:
                self._watch()
            else:
                self._unwatch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unwatch()
            super().connection_lost(exc)

        def _watch(self) -> None:
            if self._timer is None:
                self._timer = self.loop.call_later(head_s, self._end)

        def _unwatch(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _end(self) -> None:
            self._timer = None
            self.transport.close()

    return PunctualProtocol
