"""Finds connectors by name: Kigen's own, and those that installed packages register.

A package registers a connector by an entry point of the group `kigen.connectors`; Kigen's own are the same lines, in
`_OURS`. Each names a `ConnectorSpec`. A new connector of Kigen is a folder with a `spec.py`, and one line here.

Invariant: a package cannot replace a connector of Kigen, and one that is broken stops only the apps that use it.
Cost: a connector is loaded when its name is asked for. Entry points are read only for names that Kigen does not have.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points

from kigen.plan.connectors.spec import ConnectorSpec, Place

GROUP = "kigen.connectors"
_OURS = {
    "csv": "kigen.connectors.csv.spec:SPEC",
    "parquet": "kigen.connectors.parquet.spec:SPEC",
    "jsonl": "kigen.connectors.jsonl.spec:SPEC",
    "synthetic": "kigen.connectors.synthetic.spec:SPEC",
    "http": "kigen.connectors.http.spec:SPEC",
    "mqtt": "kigen.connectors.mqtt.spec:SPEC",
    "spark": "kigen.spark.dataframes.spec:SPEC",
    "kafka": "kigen.connectors.kafka.spec:SPEC",
    "console": "kigen.connectors.console.spec:SPEC",
    "delta": "kigen.connectors.delta.spec:SPEC",
    "postgres": "kigen.connectors.postgres.spec:SPEC",
}


class BrokenPlugin(ValueError):
    """A package registers a connector that cannot be used. The message names the package."""


@dataclass
class Registry:
    """All connectors of this process. `known` holds those that were loaded, by name."""

    known: dict[str, ConnectorSpec] = field(default_factory=dict)

    def find(self, name: str) -> ConnectorSpec | None:
        """Returns the connector that an app file calls `name`, in any case; None if there is none.

        Raises BrokenPlugin if a package registers the name, but not a connector.
        """
        lower = name.lower()
        if lower in self.known or lower in _OURS:
            return self._loaded(lower)
        ours = [self._loaded(own) for own in _OURS]
        aliased = next((spec for spec in ours if lower in spec.aliases), None)
        if aliased is not None:
            return aliased
        if lower in self._plugins:
            return self._loaded(lower)
        return next((spec for spec in self.all() if lower in spec.aliases), None)

    def all(self) -> Iterator[ConnectorSpec]:
        """Yields every connector that can be used, Kigen's own first. Leaves broken ones out: see `broken`."""
        for name in dict.fromkeys([*_OURS, *self.known, *sorted(self._plugins)]):
            try:
                yield self._loaded(name)
            except BrokenPlugin:
                continue

    def broken(self) -> list[str]:
        """Returns what is wrong with packages whose connectors cannot be used."""
        found = [
            f"package {_package(point)} registers connector '{point.name}', which Kigen has itself"
            for point in entry_points(group=GROUP)
            if point.name.lower() in _OURS
        ]
        for name in sorted(self._plugins):
            try:
                self._loaded(name)
            except BrokenPlugin as error:
                found.append(str(error))
        return found

    @cached_property
    def _plugins(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=GROUP):
            same = found.setdefault(point.name.lower(), [])
            if point.name.lower() not in _OURS and point not in same:
                same.append(point)
        return {name: points for name, points in found.items() if points}

    def _loaded(self, name: str) -> ConnectorSpec:
        if name not in self.known:
            self.known[name] = _our(_OURS[name]) if name in _OURS else _plugin(name, self._plugins[name])
        return self.known[name]


def _our(line: str) -> ConnectorSpec:
    module, _, attribute = line.partition(":")
    spec: ConnectorSpec = getattr(importlib.import_module(module), attribute)
    return spec


def _plugin(name: str, points: list[EntryPoint]) -> ConnectorSpec:
    packages = sorted({_package(point) for point in points})
    if len(packages) > 1:
        raise BrokenPlugin(f"packages {' and '.join(packages)} both register connector '{name}': uninstall one")
    owner = f"package {packages[0]}: its connector '{name}' ({points[0].value})"
    try:
        spec = points[0].load()
    except Exception as error:  # whatever a stranger's module raises while it is imported
        raise BrokenPlugin(f"{owner} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(spec, ConnectorSpec):
        raise BrokenPlugin(f"{owner} must be a kigen.connectors.ConnectorSpec, found {type(spec).__name__}")
    if spec.name != name:
        raise BrokenPlugin(f"{owner} calls itself '{spec.name}': both names must be the same, in lower case")
    if not spec.is_source and not spec.is_table and not spec.is_sink:
        raise BrokenPlugin(f"{owner} has neither a source, nor a table, nor a sink")
    return replace(spec, package=packages[0])


def _package(point: EntryPoint) -> str:
    return "(unknown)" if point.dist is None else f"{point.dist.name} {point.dist.version}"


REGISTRY = Registry()


def connector_named(name: str) -> ConnectorSpec | None:
    """Returns the connector that an app file calls `name`; None if there is none. Raises BrokenPlugin."""
    return REGISTRY.find(name)


def spec_of(name: str) -> ConnectorSpec:
    """Returns the connector of a bound stream or query. Raises BrokenPlugin if its package is gone."""
    spec = REGISTRY.find(name)
    if spec is None:
        raise BrokenPlugin(f"no connector '{name}': the package that registers it is not installed here")
    return spec


def names_for(place: Place) -> tuple[str, ...]:
    """Returns the names of all connectors that can stand at a place of an app file."""
    return tuple(spec.name for spec in REGISTRY.all() if spec.fits(place))
