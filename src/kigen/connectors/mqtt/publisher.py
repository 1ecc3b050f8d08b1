"""Publishes messages to a broker with QoS 1, in order, and knows how many of them the broker has.

A broker that is away is waited for; what it has not acknowledged is sent again, in order, when it is back. Invariant:
after `flush` the broker has every message. Cost: at most `_MOST` messages wait in memory. Threads: paho's thread counts
acknowledgements, the sink's thread publishes and waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from kigen.connectors.mqtt.client import KEEPALIVE_S, BrokerOptions
from kigen.connectors.source_base import InputError

_MOST = 10_000  # messages without an acknowledgement
_FIRST_S, _WARN_S = 30.0, 10.0
_log = logging.getLogger("kigen")


class Publisher:
    """One connection. The broker chooses its identifier unless the app file does."""

    def __init__(self, options: BrokerOptions, owner: str, client_id: str) -> None:
        self._options, self._owner = options, owner
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=mqtt.MQTTv5)
        self._client.max_inflight_messages_set(1_000)
        options.apply(self._client)
        self._client.on_connect, self._client.on_disconnect = self._connected, self._disconnected
        self._client.on_publish = self._acknowledged
        self._changed = threading.Condition()
        self._sent = self._acked = 0
        self._is_connected, self._interrupted = False, False
        self._refusal = "it cannot be reached"
        self._error: str | None = None

    def connect(self) -> None:
        """Connects; raises InputError if the broker does not answer for a while, or refuses."""
        self._client.connect_async(self._options.host, self._options.port, KEEPALIVE_S)
        self._client.loop_start()
        with self._changed:
            self._changed.wait_for(lambda: self._is_connected or self._ended(), _FIRST_S)
            self._check()
            if not self._is_connected:
                raise InputError(
                    f"{self._owner}: the broker {self._options.address} does not answer for {_FIRST_S:g} s "
                    f"({self._refusal}): check broker, the network and the options username and tls"
                )

    def publish(self, topic: str, payload: bytes, retain: bool, about: Sequence[tuple[str, str]]) -> None:
        """Sends a message. `about` travels beside the payload, as user properties."""
        if self._sent - self._acked >= _MOST:
            self._wait(_MOST // 2)
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho has no type here
        properties.UserProperty = list(about)
        self._sent += 1
        self._client.publish(topic, payload, qos=1, retain=retain, properties=properties)

    def flush(self) -> None:
        """Returns when the broker has acknowledged everything. Waits for one that is away."""
        self._wait(0)

    def _wait(self, most: int) -> None:
        warn_at, warned = time.monotonic() + _WARN_S, False
        with self._changed:
            while self._sent - self._acked > most:
                self._changed.wait(0.5)
                self._check()
                if not warned and time.monotonic() > warn_at:
                    warned = True
                    text = "warning: %s: the broker %s does not acknowledge; the run waits for it"
                    _log.warning(text, self._owner, self._options.address)
            self._check()
        if warned:
            _log.warning("%s: the broker %s acknowledges again", self._owner, self._options.address)

    def _ended(self) -> bool:
        return self._interrupted or self._error is not None

    def _check(self) -> None:
        if self._error is not None:
            raise InputError(f"{self._owner}: {self._error}")
        if self._interrupted:
            raise InputError(f"{self._owner}: the run was stopped while it waited for the broker")

    def interrupt(self) -> None:
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def close(self) -> None:
        self._client.on_disconnect = None
        self._client.disconnect()
        self._client.loop_stop()

    # --- paho's thread -----------------------------------------------------------------------------------------------

    def _connected(self, client: mqtt.Client, user: Any, flags: Any, reason: Any, properties: Any) -> None:
        with self._changed:
            self._is_connected = not reason.is_failure
            self._refusal = str(reason)
            self._changed.notify_all()

    def _disconnected(self, client: mqtt.Client, user: Any, flags: Any, reason: Any, properties: Any) -> None:
        with self._changed:
            self._is_connected = False

    def _acknowledged(self, client: mqtt.Client, user: Any, number: int, reason: Any, properties: Any) -> None:
        with self._changed:
            self._acked += 1
            if reason.is_failure:
                self._error = f"the broker {self._options.address} refuses a message: {reason}"
            if self._acked == self._sent or self._error is not None or self._sent - self._acked == _MOST // 2:
                self._changed.notify_all()
