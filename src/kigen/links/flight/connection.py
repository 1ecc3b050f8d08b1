"""TCP connection of one client. Reconnects with back-off, and restores errors of the other side as our own classes.

Invariant: `attempt` repeats only calls that may be repeated (every call of the protocol may: appends are numbered, acks
only rise), and only after failures of the link itself. What the server refuses is raised at once. Gives up with
LinkDown after `patience_s`. Cost: one additional round trip (`hello`) per connection.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.flight as fl

from kigen.links.errors import LinkDown, LinkError, LinkRefused
from kigen.links.flight.address import Address, Security, may_connect
from kigen.links.flight.counters import WireBytes, WireMeter
from kigen.links.flight.protocol import VERSION, from_flight, request
from kigen.queue.errors import QueueClosed

T = TypeVar("T")
TROUBLE = (
    fl.FlightUnavailableError,
    fl.FlightTimedOutError,
    fl.FlightInternalError,
    fl.FlightCancelledError,
    pa.ArrowIOError,
)
_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),  # a separate connection, so that its bytes can be counted
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


@dataclass(frozen=True)
class Patience:
    """How long a client keeps trying, and how often."""

    patience_s: float = 30.0  # 0: tries once
    first_s: float = 0.05  # pause before the second try; doubles with each try
    longest_s: float = 2.0
    call_s: float = 10.0  # timeout of a call that should answer at once


class Connection:
    """Connection to one server."""

    def __init__(self, address: str, security: Security | None = None, patience: Patience | None = None) -> None:
        self.security, self.patience = security or Security(), patience or Patience()
        self.address = Address.parse(address)
        tls = may_connect(self.address, self.security)
        self._location = f"grpc{'+tls' if tls else ''}://{self.address}"
        self._lock = threading.Lock()
        self._client: Any = None
        self._closed = False
        self._meter = WireMeter()
        self.software: Any = None  # versions that the other side reports

    def client(self) -> Any:
        """Returns the Flight client in use. Connects and says hello if there is none."""
        with self._lock:
            if self._closed:
                raise QueueClosed(f"the link to {self.address} is closed")
            if self._client is None:
                roots = self.security.roots or None
                client = fl.FlightClient(self._location, tls_root_certs=roots, generic_options=_OPTIONS)
                try:
                    answer = _act(client, "hello", request(version=VERSION), self.options(self.patience.call_s))
                except BaseException:
                    client.close()
                    raise
                self._meter.connected(int(str(answer["you"]).rpartition(":")[2]))
                self.software = answer.get("software")
                self._client = client
            return self._client

    def options(self, timeout_s: float) -> Any:
        """Returns the options of a call: timeout and token."""
        headers = [(b"authorization", self.security.bearer.encode())] if self.security.token else []
        return fl.FlightCallOptions(timeout=timeout_s, headers=headers)

    def call(self, action: str, timeout_s: float | None = None, **fields: Any) -> dict[str, Any]:
        """Calls one action. Tries again while the link fails."""
        limit = self.patience.call_s if timeout_s is None else timeout_s
        return self.attempt(lambda client: _act(client, action, request(**fields), self.options(limit)))

    def call_bytes(self, action: str, timeout_s: float | None = None, **fields: Any) -> bytes:
        """Calls an action that answers with plain bytes."""
        limit = self.patience.call_s if timeout_s is None else timeout_s
        return self.attempt(lambda client: _act_raw(client, action, request(**fields), self.options(limit)))

    def attempt(self, what: Callable[[Any], T], patience_s: float | None = None) -> T:
        """Calls `what` with the client, and again while the link fails."""
        started, pause = time.monotonic(), self.patience.first_s
        limit = self.patience.patience_s if patience_s is None else patience_s
        while True:
            client = None
            try:
                client = self.client()
                return what(client)
            except (fl.FlightError, pa.ArrowException, OSError) as error:
                self.check(error)
                self.drop(client)
                waited = time.monotonic() - started
                if waited + pause > limit:
                    text = f"{self.address} does not answer (tried for {waited:.1f} s): is it running? {_short(error)}"
                    raise LinkDown(text, {"address": str(self.address)}) from error
            time.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(pause * 2, self.patience.longest_s)

    def check(self, error: Exception) -> None:
        """Raises the error if it will not go away by trying again: what the other side refused, or a closed link."""
        refused = from_flight(error)
        if refused is not None:
            raise refused from error
        if isinstance(error, fl.FlightUnauthenticatedError):
            given = (
                "refuses the token: both sides need the same one"
                if self.security.token
                else "requires a token: none was given"
            )
            raise LinkRefused(
                f"{self.address} {given}. `kigen up` writes it to its state directory (--state)"
            ) from error
        if self._closed:
            raise QueueClosed(f"the link to {self.address} is closed") from error
        if not isinstance(error, TROUBLE) and not _was_dropped(error):
            raise LinkError(f"{self.address}: {_short(error)}") from error

    def drop(self, client: Any) -> None:
        """Closes a broken connection, unless another thread already replaced it."""
        with self._lock:
            if client is None or client is not self._client:
                return
            self._meter.read()
            self._client = None
        client.close()

    def wire(self) -> WireBytes:
        """Returns the bytes that TCP carried so far."""
        return self._meter.read()

    def close(self) -> None:
        self._meter.read()
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()


def _was_dropped(error: Exception) -> bool:
    """Returns whether another thread found the connection broken and closed it. The next try makes a new one."""
    return isinstance(error, pa.ArrowInvalid) and "is closed" in str(error)


def _act(client: Any, action: str, body: bytes, options: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_act_raw(client, action, body, options))
    return answer


def _act_raw(client: Any, action: str, body: bytes, options: Any) -> bytes:
    (result,) = client.do_action(fl.Action(action, body), options)
    return bytes(result.body.to_pybytes())


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
