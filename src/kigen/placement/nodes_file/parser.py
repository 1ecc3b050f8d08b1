"""Parses a nodes file: the nodes, their links, where streams are born and where results are wanted.

The file is TOML; docs/reference/nodes-file.md describes it. The parser collects all errors; each says where it is, what
is wrong and what to write. `from_plan` checks the names of streams, queries and operators against the app. Invariant:
the result is sound on its own.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from kigen.durable import POWER, durability_of
from kigen.placement.nodes_file.entries import (
    FIRST_PORT,
    STANDBY_PORT,
    NodeEntry,
    NodesFile,
    NodesFileError,
    OperatorEntry,
    StreamEntry,
)
from kigen.placement.nodes_file.standby_settings import standby_of
from kigen.placement.nodes_file.values import Section, Values, suggest
from kigen.placement.problem import ProblemLink

_TOP = ("period", "default_deadline", "token_file", "nodes", "links", "streams", "results", "operators")
_NODE = (
    "speed",
    "address",
    "standby",
    "standby_address",
    "batch",
    "compress",
    "recovery",
    "silence",
    "period",
    "recovery_within",
    "overhead_below",
    "figures",
    "certificate",
    "key",
    "durability",
)
EXAMPLE = '[nodes.car]\nspeed = 1.0\n\n[streams.readings]\nborn = "car"\n\n[results]\nhot = "car"'


def parse_nodes(text: str, file: str = "nodes.toml") -> NodesFile:
    """Parses the text of a nodes file. Raises NodesFileError with all errors."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NodesFileError(file, (f"not TOML: {error}. A nodes file looks like\n\n{EXAMPLE}",)) from error
    return _Parser(file, table).parse()


class _Parser:
    def __init__(self, file: str, table: dict[str, Any]) -> None:
        self.file, self.table = file, table
        self.errors: list[str] = []
        self.names: tuple[str, ...] = ()

    def parse(self) -> NodesFile:
        top = Values(Section("", self.table), self.errors)
        top.only(_TOP)
        nodes = self._nodes(top.table("nodes"))
        links = self._links()
        streams = {name: self._stream(v) for name, v in top.sections("streams")}
        results = {
            query: node for query, node in top.table("results").items() if self._is_node(node, f"[results] {query}")
        }
        operators = {name: self._operator(v) for name, v in top.sections("operators")}
        period, deadline = top.duration("period", 100_000.0), top.duration("default_deadline", 60_000_000.0)
        token = top.text("token_file")
        if self.errors:
            raise NodesFileError(self.file, tuple(self.errors))
        return NodesFile(self.file, nodes, links, streams, results, operators, period, deadline, token)

    def _nodes(self, table: dict[str, Any]) -> tuple[NodeEntry, ...]:
        self.names = tuple(table)
        if not table:
            self.errors.append(f"no nodes: write at least one, such as\n\n{EXAMPLE}")
        entries = []
        for i, (name, value) in enumerate(table.items()):
            if not re.fullmatch(r"[\w-]+", name):
                self.errors.append(f"[nodes] {name!r}: names of nodes consist of letters, digits, - and _")
            if not isinstance(value, dict):
                self.errors.append(f"[nodes] {name} must be a table: write [nodes.{name}] and below it speed = 1.0")
                continue
            entries.append(self._node(name, Values(Section(f"nodes.{name}", value), self.errors), FIRST_PORT + i))
        used: dict[tuple[str, int], str] = {}
        for name, host, port in self._served(entries):
            other = used.setdefault((host, port), name)
            if other != name:
                self.errors.append(
                    f"nodes {other} and {name} have the same address {host}:{port}: give each its own port"
                )
        return tuple(entries)

    @staticmethod
    def _served(entries: list[NodeEntry]) -> list[tuple[str, str, int]]:
        own = [(entry.name, entry.host, entry.port) for entry in entries]
        return own + [(f"{e.name} (standby)", e.standby_host, e.standby_port) for e in entries if e.standby is not None]

    def _node(self, name: str, v: Values, port: int) -> NodeEntry:
        v.only(_NODE)
        host, own_port = v.address("address", port)
        other_host, other_port = v.address("standby_address", own_port + STANDBY_PORT)
        how = standby_of(v)
        return NodeEntry(
            name,
            v.number("speed", 1.0, above=0),
            host,
            own_port,
            how.kind,
            how.batch,
            how.compress,
            other_host,
            other_port,
            how.silence_us,
            how.within_us,
            how.below,
            v.text("figures"),
            v.text("certificate"),
            v.text("key"),
            how.period_us,
            self._durability(v),
        )

    def _durability(self, v: Values) -> str:
        found = v.text("durability")
        try:
            return POWER if found is None else durability_of(found)
        except ValueError as error:
            self.errors.append(f"{v.where} durability: {error}")
            return POWER

    def _links(self) -> tuple[ProblemLink, ...]:
        entries = self.table.get("links")
        if entries is None:
            return tuple(ProblemLink(a, b) for a in self.names for b in self.names if a != b)
        if not isinstance(entries, list):
            self.errors.append('links must be written as [[links]] and below it between = ["a", "b"]')
            return ()
        found: dict[tuple[str, str], ProblemLink] = {}
        for i, value in enumerate(entries, 1):
            v = Values(Section(f"[links] number {i}", value), self.errors)
            v.only(("between", "from", "to", "delay", "bandwidth"))
            for a, b in self._ends(v, value):
                found[a, b] = ProblemLink(a, b, v.duration("delay", 0.0), v.bandwidth("bandwidth"))
        return tuple(found.values())

    def _ends(self, v: Values, value: dict[str, Any]) -> list[tuple[str, str]]:
        between = value.get("between")
        if isinstance(between, list) and len(between) == 2:
            ends, ways = tuple(between), 2
        elif between is None and "from" in value and "to" in value:
            ends, ways = (value["from"], value["to"]), 1
        else:
            self.errors.append(
                f'{v.where}: write between = ["a", "b"] for both ways, or from = "a" and to = "b" for one'
            )
            return []
        known = [self._is_node(n, v.where) for n in ends]  # both names are checked, so that both errors are reported
        if not all(known):
            return []
        return [ends, (ends[1], ends[0])][:ways]

    def _stream(self, v: Values) -> StreamEntry:
        v.only(("born", "rate", "bytes", "period"))
        born = v.names("born")
        if not born:
            self.errors.append(
                f'{v.where}: say where it is born, such as born = "{self.names[0] if self.names else "car"}"'
            )
        born = tuple(n for n in born if self._is_node(n, f"{v.where} born"))
        period = v.duration("period", 0.0) or None
        return StreamEntry(born, v.number("rate", None, above=0), v.number("bytes", None, above=0), period)

    def _operator(self, v: Values) -> OperatorEntry:
        v.only(("nodes", "cost_us", "selectivity"))
        nodes = tuple(n for n in v.names("nodes") if self._is_node(n, f"{v.where} nodes"))
        return OperatorEntry(nodes, v.number("cost_us", None, above=0), v.number("selectivity", None, least=0))

    def _is_node(self, name: Any, where: str) -> bool:
        if name in self.names:
            return True
        self.errors.append(f"{where}: there is no node {name!r}; {suggest(str(name), self.names, 'the nodes are')}")
        return False
