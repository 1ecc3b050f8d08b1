"""Reads the options that the MQTT source and sink share: the broker, who connects, and how."""

from __future__ import annotations

import os
import ssl

import paho.mqtt.client as mqtt

from kigen.connectors.options import OptionError, secret_of
from kigen.plan.logical import Connector

KEEPALIVE_S = 30


class BrokerOptions:
    """Where the broker is. Raises OptionError for wrong options; does not connect."""

    def __init__(self, owner: str, connector: Connector, directory: str) -> None:
        self._owner, self._connector, self._directory = owner, connector, directory
        self.topic = str(connector.option("topic") or "")
        if not self.topic.strip():
            raise OptionError(f"{owner}: connector 'mqtt' needs a topic: write topic = 'rooms/+/temp'", "topic")
        host, _, port = str(connector.option("broker")).rpartition(":")
        if not host or not port.isdigit():
            raise OptionError(f"{owner}: broker must be host:port, such as 'localhost:1883'", "broker")
        self.address, self.host, self.port = f"{host}:{port}", host.strip("[]"), int(port)

    def apply(self, client: mqtt.Client) -> None:
        """Gives the client what it shows to the broker, and how often it tries again."""
        option = self._connector.option
        password = secret_of(self._owner, self._connector, "password", self._directory)
        if option("username") is not None:
            client.username_pw_set(str(option("username")), password)
        if option("tls", False) or option("ca_file") is not None:
            ca = option("ca_file")
            file = None if ca is None else os.path.join(self._directory, str(ca))
            client.tls_set(file, tls_version=ssl.PROTOCOL_TLS_CLIENT)
        client.reconnect_delay_set(1, 15)
