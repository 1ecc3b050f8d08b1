"""Turns the options of a connector into the configuration of librdkafka, and imports the client library.

Secrets come from environment variables (`password_env`) or files (`password_file`), never from the app file: the app
travels through Spark's options, which others can see. Each process reads the secrets itself.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from kigen.connectors.options import OptionError, secret_of
from kigen.connectors.source_base import InputError
from kigen.plan.logical import Connector

_PASSED = {
    "brokers": "bootstrap.servers",
    "security": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "username": "sasl.username",
    "ssl_ca": "ssl.ca.location",
    "ssl_certificate": "ssl.certificate.location",
    "ssl_key": "ssl.key.location",
}
_SECRETS = {"username": "sasl.username", "password": "sasl.password", "ssl_key_password": "ssl.key.password"}
_PATHS = ("ssl_ca", "ssl_certificate", "ssl_key")
_SECRET_WORDS = ("password", "secret", "key.pem", "jaas")
Config = dict[str, Any]


def client_library(module: str = "") -> ModuleType:
    """Returns confluent_kafka, or a module of it; raises InputError if it is not installed."""
    try:
        return importlib.import_module(f"confluent_kafka{module}")
    except ImportError as error:
        raise InputError(
            "connector 'kafka' needs the package confluent-kafka, which is not installed: pip install 'kigen[kafka]'"
        ) from error


@dataclass(frozen=True)
class ClientOptions:
    """Options of one connector. `directory` is that of the app file: files are relative to it."""

    owner: str
    connector: Connector
    directory: str

    @property
    def brokers(self) -> str:
        return str(self.connector.option("brokers", ""))

    def text(self, key: str, default: str | None = None) -> str:
        """Returns an option that must be text; raises OptionError if it is missing and has no default."""
        value = self.connector.option(key, default)
        if not isinstance(value, str) or not value.strip():
            raise OptionError(f"{self.owner}: connector 'kafka' needs {key}: write {key} = '...'", key)
        return value.strip()

    def config(self) -> Config:
        """Returns the configuration for librdkafka, with the secrets."""
        self.text("brokers")
        # Kigen reports errors itself; librdkafka's own lines would stand between them on the terminal.
        found: Config = {"log_level": 0, "topic.metadata.refresh.interval.ms": 30_000, "client.id": "kigen"}
        for key, name in _PASSED.items():
            value = self.connector.option(key)
            if value is not None:
                found[name] = os.path.join(self.directory, str(value)) if key in _PATHS else str(value)
        for key, name in _SECRETS.items():
            value = self.secret(key)
            if value is not None:
                found[name] = value
        return found | self._further()

    def secret(self, key: str) -> str | None:
        """Returns the secret that `KEY_env` or `KEY_file` names; None if neither is given."""
        return secret_of(self.owner, self.connector, key, self.directory)

    def _further(self) -> Config:
        """Returns the settings of option `config`: `'name = value, name = value'`, as librdkafka calls them."""
        found: Config = {}
        for part in str(self.connector.option("config", "")).split(","):
            name, equals, value = (text.strip() for text in part.partition("="))
            if not part.strip():
                continue
            if not equals or not name or not value:
                raise OptionError(f"{self.owner}: config must be 'name = value, ...', found {part.strip()!r}", "config")
            if any(word in name for word in _SECRET_WORDS):
                raise OptionError(
                    f"{self.owner}: {name} is a secret, which an app file must not hold: write password_env, "
                    "password_file, ssl_key or ssl_key_password_env instead",
                    "config",
                )
            found[name] = value
        return found


def is_no_broker(error: Any) -> bool:
    """Returns whether an error of the client says that no broker can be reached now: it may come back."""
    library = client_library()
    codes = library.KafkaError
    return error.code() in (
        codes._ALL_BROKERS_DOWN,
        codes._TRANSPORT,
        codes._TIMED_OUT,
        codes._TIMED_OUT_QUEUE,
        codes._WAIT_COORD,
        codes._RESOLVE,
        codes.LEADER_NOT_AVAILABLE,
        codes.NOT_LEADER_FOR_PARTITION,
        codes.BROKER_NOT_AVAILABLE,
        codes.REQUEST_TIMED_OUT,
        codes.NETWORK_EXCEPTION,
        codes.COORDINATOR_LOAD_IN_PROGRESS,
        codes.COORDINATOR_NOT_AVAILABLE,
        codes.NOT_COORDINATOR,
        codes.UNKNOWN_LEADER_EPOCH,  # of a broker that has just started, and does not know yet that it leads again
        codes.FENCED_LEADER_EPOCH,
        codes.OFFSET_NOT_AVAILABLE,
        codes.KAFKA_STORAGE_ERROR,
    )
