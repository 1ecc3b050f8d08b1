"""Receives `FROM mqtt (broker = ..., topic = ...)`: acknowledges a message when the ingest queue has it.

Subscribes with QoS 1. With a checkpoint the session is persistent: the broker keeps what comes while the run is away.
Messages are taken in batches, as many as have come while the last batch was made durable. While the queue is full
nothing is acknowledged, so the broker stops sending. Invariant: no message is lost between broker and queue. A message
that the broker delivers again because an acknowledgement was lost is recognised by its number and content, as long as
the queue holds it. A broker that is away is waited for.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from kigen.connectors.mqtt.client import KEEPALIVE_S, BrokerOptions
from kigen.connectors.mqtt.messages import Delivered, Messages
from kigen.connectors.pushed import IngestFull, PushRefused
from kigen.connectors.requests import Receiver, ReceiverRequest
from kigen.connectors.source_base import InputError
from kigen.queue import QueueClosed, QueueError

_MOST = 1_000  # messages in a batch
_KNOWN = 10_000  # delivered messages that are recognised when they come again
_WAIT_S = 0.1  # while the queue is full


@dataclass(frozen=True)
class _Waiting:
    number: int  # the packet's, for its acknowledgement
    name: str  # number and content
    again: bool  # whether the broker says that it delivers the message again
    message: Delivered


class MqttReceiver(Receiver):
    """Receives one stream, in threads of its own, until it is closed."""

    def __init__(self, asked: ReceiverRequest) -> None:
        """Reads the options, but does not connect. With a session, the broker keeps what comes while the run is
        away."""
        stream, ingest, directory, session = asked.stream, asked.ingest, asked.directory, asked.session
        option = stream.source.option
        self._stream, self._ingest, self._notify = stream, ingest, asked.notify
        self._messages = Messages(stream)
        options = BrokerOptions(f"stream '{stream.name}'", stream.source, directory)
        self._topic, self._broker, self._host, self._port = options.topic, options.address, options.host, options.port
        self._client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=str(option("client_id") or session or ""),
            clean_session=session is None,
            manual_ack=True,
        )
        options.apply(self._client)
        self._client.on_connect, self._client.on_connect_fail = self._connected, self._unreachable
        self._client.on_disconnect, self._client.on_message = self._disconnected, self._arrived
        self._most = _MOST if stream.buffer is None else min(_MOST, stream.buffer)
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._known: OrderedDict[str, None] = OrderedDict.fromkeys(ingest.recent)
        self._closing, self._away, self._retained = threading.Event(), False, True
        self._taker = threading.Thread(target=self._take, name=f"mqtt {stream.name}", daemon=True)
        self.error: Exception | None = None  # what ended the receiver

    def start(self) -> None:
        """Connects, and goes on trying if the broker is away."""
        self._client.connect_async(self._host, self._port, KEEPALIVE_S)
        self._taker.start()
        self._client.loop_start()

    def close(self) -> None:
        """Ends the receiver. Messages that are not acknowledged come again."""
        self._closing.set()
        self._waiting.put(None)
        self._client.disconnect()
        self._client.loop_stop()
        if self._taker.is_alive():
            self._taker.join(5)

    # --- paho's thread -----------------------------------------------------------------------------------------------

    def _connected(self, client: mqtt.Client, user: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self._warn(f"refuses the connection: {reason}")
            return
        if self._away:
            self._away = False
            self._notify(f"stream {self._stream.name}: the broker {self._broker} is back")
        # Retained messages come with every subscription: only those of a new session are news.
        self._retained = not flags.session_present
        client.subscribe(self._topic, qos=1)

    def _unreachable(self, client: mqtt.Client, user: Any) -> None:
        self._warn("cannot be reached")

    def _disconnected(self, client: mqtt.Client, user: Any, flags: Any, reason: Any, properties: Any) -> None:
        if not self._closing.is_set():
            self._warn(f"has closed the connection: {reason}")

    def _warn(self, what: str) -> None:
        if not self._away and not self._closing.is_set():
            self._away = True
            self._notify(f"warning: stream {self._stream.name}: the broker {self._broker} {what}; waiting for it")

    def _arrived(self, client: mqtt.Client, user: Any, message: mqtt.MQTTMessage) -> None:
        if message.retain and not self._retained:
            if message.qos:
                client.ack(message.mid, message.qos)
            return
        digest = hashlib.blake2b(message.topic.encode() + b"\0" + message.payload, digest_size=8).hexdigest()
        name = f"{message.mid}:{digest}" if message.qos else ""
        self._waiting.put(_Waiting(message.mid, name, message.dup, Delivered(message.topic, bytes(message.payload))))

    # --- the taking thread -------------------------------------------------------------------------------------------

    def _take(self) -> None:
        try:
            while (batch := self._next()) is not None:
                self._push(batch)
                for one in batch:
                    if one.name:
                        self._client.ack(one.number, 1)
        except (InputError, PushRefused, QueueError, OSError) as error:
            if not (self._closing.is_set() or isinstance(error, QueueClosed)):
                self.error = error

    def _next(self) -> list[_Waiting] | None:
        """Waits for a message, and returns it with all others that have come; None at the end."""
        batch: list[_Waiting] = []
        one = self._waiting.get()
        with contextlib.suppress(queue.Empty):
            while one is not None:
                batch.append(one)
                if len(batch) == self._most:
                    return batch
                one = self._waiting.get_nowait()
        return None if one is None else batch

    def _push(self, batch: list[_Waiting]) -> None:
        """Appends the messages that are new. Waits while there is no room."""
        new = [one for one in batch if not (one.again and one.name in self._known)]
        if not new:
            return
        rows = self._messages.rows([one.message for one in new], time.time_ns() // 1000)
        names = [one.name for one in new if one.name]
        while True:
            try:
                self._ingest.push(rows, names=names)
                break
            except IngestFull:
                if self._closing.wait(_WAIT_S):
                    raise
        self._known.update(dict.fromkeys(names))
        while len(self._known) > _KNOWN:
            self._known.popitem(last=False)
