"""Describes a connector once: its name, its options, the files that it touches, and what opens it.

The binder checks `FROM` and `INTO` against descriptions, `kigen.plan.paths` compares files by them, and
`kigen.connectors` opens connectors by them. What opens a connector is named, not imported ("package.module:name"), so
an app is checked without importing a broker's client or opening anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from kigen.plan.connectors.option_kinds import COLUMNS, OptionKind, one_of

Place = Literal["source", "table", "sink"]  # FROM of a stream, FROM of a table, INTO
Opener = str | Callable[[Any], Any]  # "package.module:name", or the thing itself


@dataclass(frozen=True)
class ConnectorSpec:
    """The description of a connector.

    `source` is called with a `kigen.connectors.SourceRequest` and returns a `Source`; `sink` is called with a
    `SinkRequest` and returns a `Sink`; `receiver` is called with a `ReceiverRequest` and returns a `Receiver`. A table
    is read by `table`, called with a `SourceRequest`, which returns a `ReadTable`; without it, from the whole source.
    """

    name: str
    options: dict[str, OptionKind] = field(default_factory=dict)
    required: str | None = None  # the option that must be given
    source: Opener | None = None
    sink: Opener | None = None
    receiver: Opener | None = None  # of a pushed stream: what receives its tuples
    table: Opener | None = None  # what reads it as a table, if that is not its source
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
    is_table: bool = False  # whether CREATE TABLE reads it
    table_options: dict[str, OptionKind] = field(default_factory=dict)  # further ones, in FROM of a table only
    takes_any_option: bool = False  # whether it hands options that Kigen does not know to somebody else
    extra: str | None = None  # of kigen: `pip install 'kigen[extra]'` installs what the connector imports
    package: str | None = None  # name and version of the package that registered it; None: it is Kigen's own

    @property
    def is_source(self) -> bool:
        return self.source is not None or self.is_pushed

    @property
    def is_sink(self) -> bool:
        return self.sink is not None

    @property
    def owner(self) -> str:
        """Returns the connector as messages name it, with its package if it is not Kigen's own."""
        return f"connector '{self.name}'" + ("" if self.package is None else f" of package {self.package}")

    def fits(self, place: Place) -> bool:
        """Returns whether the connector can stand at a place of an app file."""
        return {"source": self.is_source, "table": self.is_table, "sink": self.is_sink}[place]

    def options_in(self, place: Place) -> dict[str, OptionKind]:
        """Returns all options that the connector takes at a place."""
        if place == "sink":
            return self.into_options
        return self.options | self.source_options | (self.table_options if place == "table" else {})

    @property
    def into_options(self) -> dict[str, OptionKind]:
        """Returns all options in INTO: `mode` if there is a choice, and `key` for the modes that need one."""
        chosen = one_of(*self.modes) if len(self.modes) > 1 else None
        moded = {} if chosen is None else {"mode": OptionKind(chosen.wanted, chosen.accepts, f"'{self.modes[-1]}'")}
        keyed = {"key": COLUMNS} if {"upsert", "current"} & set(self.modes) else {}
        return {**self.options, **self.sink_options, **moded, **keyed}
