"""A mosquitto on this machine, with a port and a folder of its own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from kigen_lab.servers.errors import ServerMissing
from kigen_lab.servers.ports import free_ports


class Mosquitto:
    """Starts and stops the broker; what it must keep survives in its folder."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
        if not Path(program).exists():
            raise ServerMissing("mosquitto is missing: run 'make setup' (Debian: apt-get install mosquitto)")
        config = folder / "mosquitto.conf"
        config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\nuser root\nmax_queued_messages 0\n"
            f"persistence true\npersistence_location {folder}/\nlog_type subscribe\nlog_dest file {folder}/subscribed\n"
        )
        self._subscribed = folder / "subscribed"
        self._command = [program, "-c", str(config)]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None, "start first"
        return self._process.pid

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.02)

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(120)

    def subscriptions(self) -> int:
        """Returns how often a client has subscribed: a message reaches only those who have."""
        return len(self._subscribed.read_text().splitlines()) if self._subscribed.exists() else 0

    def await_subscriptions(self, count: int) -> None:
        """Waits until clients have subscribed that often, counted from the first start."""
        until = time.monotonic() + 120
        while self.subscriptions() < count:
            assert time.monotonic() < until, f"{self.subscriptions()} of {count} subscriptions"
            time.sleep(0.01)

    def publish(self, *messages: tuple[str, str], retain: bool = False) -> None:
        """Publishes messages with QoS 1, and returns when the broker has them."""
        client = mqtt.Client(CallbackAPIVersion.VERSION2)
        client.max_inflight_messages_set(1000)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        sent = [client.publish(topic, payload, qos=1, retain=retain) for topic, payload in messages]
        for one in sent:
            one.wait_for_publish(120)
        client.disconnect()
        client.loop_stop()
