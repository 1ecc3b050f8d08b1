"""Describes every connector once: its name, its direction, its options and the files that it touches.

The binder checks `FROM` and `INTO` against these descriptions, `kigen.plan.paths` compares files by them, and
`kigen.connectors` takes the names of options from them. They live here, below the connectors, so that an app can be
checked without opening anything. A new connector is a folder in `kigen.connectors`, a line in its registry and an entry
in `CONNECTORS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OptionKind:
    """The kind of value that an option takes. `wanted` completes "needs ..."; `example` is a value as written."""

    wanted: str
    accepts: Callable[[object], bool]
    example: str


@dataclass(frozen=True)
class ConnectorSpec:
    """What the plan knows about a connector."""

    name: str
    options: dict[str, OptionKind] = field(default_factory=dict)
    required: str | None = None  # the option that must be given
    is_source: bool = False
    is_sink: bool = False
    column_kind: OptionKind | None = None  # of options named like the stream's columns; None: there are none
    suffixes: tuple[str, ...] = ()  # of the files that it reads if the path is a directory; empty: it reads no files
    writes_folder: bool = False  # whether its output is a directory of files
    aliases: tuple[str, ...] = ()
    is_pushed: bool = False  # whether senders push its tuples, so that they pass through an ingest queue
    source_options: dict[str, OptionKind] = field(default_factory=dict)  # further ones, in FROM only
    has_partitions: bool = False  # whether it reads partitions, each in order by itself, that may be idle
    can_shed: bool = True  # whether SHED works: a replay must find the arrival times again
    sink_options: dict[str, OptionKind] = field(default_factory=dict)  # further ones, in INTO only
    modes: tuple[str, ...] = ("append",)  # what option `mode` of a sink takes; the first is the default
    needs: tuple[tuple[str, ...], ...] = ()  # of each group, one option must be given
    takes_any_option: bool = False  # whether it hands options that Kigen does not know to somebody else

    @property
    def from_options(self) -> dict[str, OptionKind]:
        """Returns all options in FROM."""
        return self.options | self.source_options

    @property
    def into_options(self) -> dict[str, OptionKind]:
        """Returns all options in INTO: `mode` if there is a choice, and `key` for the modes that need one."""
        listed = ", ".join(f"'{mode}'" for mode in self.modes[:-1]) + f" or '{self.modes[-1]}'"
        mode = OptionKind(listed, lambda value: value in self.modes, f"'{self.modes[-1]}'")
        moded = {"mode": mode} if len(self.modes) > 1 else {}
        keyed = {"key": _COLUMNS} if {"upsert", "current"} & set(self.modes) else {}
        return {**self.options, **self.sink_options, **moded, **keyed}


_DURATION = re.compile(
    r"(?!\s*[0.]+\s*[a-z])\s*\d+(\.\d+)?\s*(us|ms|s|sec|m|min|h|microseconds?|milliseconds?|seconds?|minutes?|hours?)\s*",
    re.IGNORECASE,
)
_NUMBER = r"\s*-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\s*"
_GENERATOR = re.compile(
    rf"\s*(?:normal\({_NUMBER},{_NUMBER}\)|uniform\({_NUMBER},{_NUMBER}\)|zipf\({_NUMBER},{_NUMBER}\)|sequence(?:\(\s*\))?|choice\([^()]+\))\s*",
    re.IGNORECASE,
)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?")
_ARRIVALS = ("constant", "poisson", "bursty")
_GENERATORS = "'normal(20, 5)', 'uniform(0, 100)', 'sequence', 'choice(a, b, c)' or 'zipf(1.2, 1000)'"


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _matches(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


_PATH = OptionKind("a string in 'single quotes'", lambda v: isinstance(v, str) and bool(v.strip()), "'data/file'")
_COLUMNS = OptionKind("column names in 'single quotes'", lambda v: isinstance(v, str) and bool(v.strip()), "'a, b'")
_TIME = OptionKind("a duration such as '60 s', '500 ms' or '2 min'", _matches(_DURATION), "'60 s'")
_INSTANTS = OptionKind("a timestamp such as '2024-01-01T00:00:00Z'", _matches(_INSTANT), "'2024-01-01T00:00:00Z'")

_SYNTHETIC = {
    "rate": OptionKind("a number above 0", _is_positive, "100"),
    "arrivals": OptionKind("'constant', 'poisson' or 'bursty'", lambda v: v in _ARRIVALS, "'poisson'"),
    "seed": OptionKind("a whole number, 0 or more", lambda v: _is_whole(v, 0), "7"),
    "duration": _TIME,
    "rows": OptionKind("a whole number above 0", lambda v: _is_whole(v, 1), "1000"),
    "burst": OptionKind("a number above 0", _is_positive, "4"),
    "every": _TIME,
    "lasting": _TIME,
    "phase": _TIME,
    "delay": _TIME,
    "start": _INSTANTS,
}
_VALUES = OptionKind(f"a generator: {_GENERATORS}", _matches(_GENERATOR), "'uniform(0, 100)'")
_FILE = {"path": _PATH}
_CHANGES = ("append", "changes")

_TEXT = OptionKind("a string in 'single quotes'", lambda v: isinstance(v, str) and bool(v.strip()), "'name'")
_START = OptionKind(
    "'earliest', 'latest' or a time such as '2026-01-02T03:04:05Z'",
    lambda v: v in ("earliest", "latest") or _matches(_INSTANT)(v),
    "'earliest'",
)


def _one_of(*choices: str) -> OptionKind:
    listed = ", ".join(f"'{choice}'" for choice in choices[:-1]) + f" or '{choices[-1]}'"
    return OptionKind(listed, lambda v: v in choices, f"'{choices[0]}'")


_KAFKA = {
    "brokers": OptionKind("addresses in 'single quotes'", _TEXT.accepts, "'host:9092'"),
    "topic": OptionKind("a topic in 'single quotes'", _TEXT.accepts, "'cars'"),
    "security": _one_of("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
    "sasl_mechanism": _TEXT,
    "username": _TEXT,
    "username_env": _TEXT,
    "username_file": _PATH,
    "password_env": _TEXT,
    "password_file": _PATH,
    "ssl_ca": _PATH,
    "ssl_certificate": _PATH,
    "ssl_key": _PATH,
    "ssl_key_password_env": _TEXT,
    "ssl_key_password_file": _PATH,
    "config": OptionKind("settings such as 'fetch.min.bytes = 1'", _TEXT.accepts, "'fetch.min.bytes = 1'"),
}
_KAFKA_SINK = {"format": _one_of("json", "arrow"), "commit": _TIME, "transactional_id": _TEXT}
_KAFKA_SOURCE = {
    "format": _one_of("json", "avro", "csv", "raw", "arrow"),
    "registry": _TEXT,
    "registry_username": _TEXT,
    "registry_password_env": _TEXT,
    "registry_password_file": _PATH,
    "schema": _PATH,
    "start": _START,
    "columns": OptionKind("places such as 'k = key, p = partition'", _TEXT.accepts, "'k = key'"),
    "group": _TEXT,
}
_MQTT = {
    "broker": OptionKind("an address in 'single quotes'", _TEXT.accepts, "'localhost:1883'"),
    "topic": OptionKind("a topic in 'single quotes'", _TEXT.accepts, "'rooms/+/temp'"),
    "format": _one_of("json", "raw"),
    "client_id": _TEXT,
    "username": _TEXT,
    "password_env": _TEXT,
    "password_file": _PATH,
    "tls": OptionKind("TRUE or FALSE", lambda v: isinstance(v, bool), "true"),
    "ca_file": _PATH,
}
_MQTT_SOURCE = {"columns": OptionKind("places such as 'room = topic[1]'", _TEXT.accepts, "'room = topic[1]'")}
_FOLLOWED = {
    "follow": OptionKind("TRUE or FALSE", lambda v: isinstance(v, bool), "true"),
    "order": _one_of("name", "time"),
    "pace": OptionKind("a number above 0", _is_positive, "1"),
    "pace_from": _INSTANTS,
}

_POSTGRES = {
    "table": OptionKind("the name of a table in 'single quotes'", _TEXT.accepts, "'results'"),
    "url_env": OptionKind("the name of an environment variable in 'single quotes'", _TEXT.accepts, "'PG_URL'"),
    "url_file": _PATH,
}
_URL = (("url_env", "url_file"),)
_SPARK = {"format": OptionKind("the name of a source of Spark in 'single quotes'", _TEXT.accepts, "'rate-micro-batch'")}
_PARQUET = {
    "partition_by": _COLUMNS,
    "roll_size": OptionKind(
        "a size such as '128 MB'", _matches(re.compile(r"\s*\d+(\.\d+)?\s*[KMG]B\s*", re.IGNORECASE)), "'128 MB'"
    ),
    "roll_every": _TIME,
}
_DELTA = {
    "partition_by": _COLUMNS,
    "compact_every": OptionKind("a whole number above 0", lambda v: _is_whole(v, 1), "100"),
}

CONNECTORS: dict[str, ConnectorSpec] = {
    spec.name: spec
    for spec in (
        ConnectorSpec(
            "csv",
            _FILE,
            "path",
            is_source=True,
            is_sink=True,
            suffixes=(".csv",),
            modes=_CHANGES,
            source_options=_FOLLOWED,
        ),
        ConnectorSpec(
            "parquet",
            _FILE,
            "path",
            is_source=True,
            is_sink=True,
            suffixes=(".parquet",),
            writes_folder=True,
            modes=_CHANGES,
            sink_options=_PARQUET,
            source_options=_FOLLOWED,
        ),
        ConnectorSpec(
            "jsonl",
            _FILE,
            "path",
            is_source=True,
            is_sink=True,
            suffixes=(".jsonl", ".ndjson", ".json"),
            aliases=("json",),
            modes=_CHANGES,
            source_options=_FOLLOWED,
        ),
        ConnectorSpec("synthetic", _SYNTHETIC, "rate", is_source=True, column_kind=_VALUES),
        ConnectorSpec("http", is_source=True, is_pushed=True),
        ConnectorSpec("mqtt", _MQTT, "broker", is_source=True, source_options=_MQTT_SOURCE, is_pushed=True),
        ConnectorSpec(
            "spark",
            _SPARK,
            "format",
            is_source=True,
            is_sink=True,
            is_pushed=True,
            takes_any_option=True,
            modes=_CHANGES,
            sink_options={"table": _TEXT},
        ),
        ConnectorSpec(
            "kafka",
            _KAFKA,
            "brokers",
            is_source=True,
            is_sink=True,
            source_options=_KAFKA_SOURCE,
            sink_options=_KAFKA_SINK,
            modes=("append", "changes", "upsert"),
            needs=(("topic",),),
            has_partitions=True,
            can_shed=False,
        ),
        ConnectorSpec("console", is_sink=True, modes=_CHANGES),
        ConnectorSpec("delta", _FILE, "path", is_sink=True, writes_folder=True, modes=_CHANGES, sink_options=_DELTA),
        ConnectorSpec("postgres", _POSTGRES, "table", is_sink=True, modes=("append", "current"), needs=_URL),
    )
}
SOURCES = tuple(spec.name for spec in CONNECTORS.values() if spec.is_source)
SINKS = tuple(spec.name for spec in CONNECTORS.values() if spec.is_sink)


def connector_named(name: str) -> ConnectorSpec | None:
    """Returns the connector that an app file calls `name`, in any case; None if there is none."""
    lower = name.lower()
    return next((spec for spec in CONNECTORS.values() if lower in (spec.name, *spec.aliases)), None)
