"""Connects to PostgreSQL, and repeats work when the server goes away: it waits, warns, and continues.

Invariant: `run` returns when its work is committed. If the connection is lost while it commits, nobody knows whether
that happened, so the work runs again from the start: it must begin by looking. A server that hangs, or whose machine is
gone without a word, is reported like one that refuses connections: a timer notices the silence, and TCP keepalives end
a connection to nowhere.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from kigen.connectors.source_base import InputError

Connection = psycopg.Connection[tuple[Any, ...]]
_Result = TypeVar("_Result")
_log = logging.getLogger("kigen")
_FIRST_WAIT_S, _LONGEST_WAIT_S, _WARN_EVERY_S = 0.05, 2.0, 30.0
_SILENT_S = 10.0  # a transaction that takes longer is reported
_CONNECTING: dict[str, str] = {  # unless the address says otherwise
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",  # ms
}
# What no waiting mends. Everything else that prevents a connection may pass.
_HOPELESS = ("authentication failed", "does not exist", "pg_hba.conf", "invalid", "no password supplied", "missing")


class Interrupted(RuntimeError):
    """The run ends while an output waits for its server."""


class Database:
    """One connection, opened when it is needed and opened again when it was lost."""

    def __init__(self, url: str, owner: str) -> None:
        self._url, self._owner = url, owner
        self._silent = False  # whether the silence of the server was reported
        self._connection: Connection | None = None
        self._interrupted = threading.Event()

    def run(self, work: Callable[[Connection], _Result]) -> _Result:
        """Runs `work` in one transaction and commits it. Waits for a server that is away, as long as it takes."""
        began, warned, wait_s = time.monotonic(), float("-inf"), _FIRST_WAIT_S
        while True:
            try:
                with self._reporting_silence():
                    connection = self._open()
                    with connection.transaction():
                        result = work(connection)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self.close()
                if self._interrupted.is_set():
                    raise Interrupted(f"{self._owner}: the run ended while PostgreSQL was away") from error
                if any(sign in str(error) for sign in _HOPELESS) or not _is_away(error):
                    raise InputError(f"{self._owner}: PostgreSQL refused: {_text(error)}") from error
                if time.monotonic() - warned >= _WARN_EVERY_S:
                    warned = time.monotonic()
                    away = f" for {warned - began:.0f} s" if warned - began > 1 else ""
                    _log.warning("warning: %s waits: PostgreSQL is away%s: %s", self._owner, away, _text(error))
                self._interrupted.wait(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
            except psycopg.Error as error:
                self.close()
                raise InputError(f"{self._owner}: PostgreSQL refused: {_text(error)}") from error
            else:
                if warned > began or self._silent:
                    self._silent = False
                    _log.warning("%s goes on: PostgreSQL is back", self._owner)
                return result

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed:
            given = conninfo_to_dict(self._url)
            settings = {name: value for name, value in _CONNECTING.items() if name not in given}
            address = make_conninfo(self._url, **settings, application_name="kigen")
            self._connection = psycopg.connect(address, autocommit=True)
            self._connection.execute("SET TIME ZONE 'UTC'")
        return self._connection

    @contextmanager
    def _reporting_silence(self) -> Iterator[None]:
        """Warns if the work takes long: the server accepts a connection and does not answer."""

        def warn() -> None:
            self._silent = True
            _log.warning("warning: %s waits: PostgreSQL does not answer for %g s", self._owner, _SILENT_S)

        timer = threading.Timer(_SILENT_S, warn)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def interrupt(self) -> None:
        """Ends waiting, from another thread."""
        self._interrupted.set()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _is_away(error: psycopg.Error) -> bool:
    """Whether the server, or the way to it, is the cause. Classes 08, 53 and 57P: connection, resources, shutdown."""
    state = error.sqlstate
    return state is None or state.startswith(("08", "53", "57P")) or state in ("40001", "40P01", "55P03")


def _text(error: psycopg.Error) -> str:
    return " ".join(str(error).split()) or type(error).__name__
