"""`kigen status`: asks every node what it is doing, and shows the answers as tables or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kigen.cli.nodes.placing import load_nodes, state_of
from kigen.engine.errors import AppNotFound
from kigen.engine.nodes.node_options import security_of
from kigen.links import STATUS, Link, LinkRefused, Patience
from kigen.placement.nodes_file.entries import NodesFile
from kigen.queue import QueueError
from kigen.replicas.replica_names import replica_name
from kigen.replicas.roles import COPIES

_ASK_OFTEN = Patience(patience_s=0.0, call_s=1.0)
_ASK_ONCE = Patience(patience_s=0.0, call_s=10.0)  # a busy node answers late
Status = dict[str, Any]  # what a node reports about itself


def replicas(nodes: NodesFile, names: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Returns the node and the number of the replica of every process of these nodes, by the name of the process."""
    found = [(name, replica) for name in names for replica in range(len(nodes.entry(name).addresses))]
    return {replica_name(name, replica): (name, replica) for name, replica in found}


def ask(nodes: NodesFile, state: Path, name: str, replica: int = 0, patience: Patience = _ASK_OFTEN) -> Status | None:
    """Returns a node's report on itself, or None if it does not answer. Raises LinkRefused if it refuses to."""
    entry = nodes.entry(name)
    link = Link(entry.addresses[replica], security_of(nodes, None, state).as_role(STATUS), patience)
    try:
        return link.about() or None  # empty: it serves already, but does not run yet
    except LinkRefused:
        raise
    except QueueError:
        return None
    finally:
        link.close()


def show_status(nodes_file: Path, format: str, state: Path | None = None) -> None:
    """Asks all nodes once and prints the answers."""
    if format not in ("text", "json"):
        raise AppNotFound(f"--format {format}: text or json is required")
    nodes, folder = load_nodes(nodes_file), state_of(nodes_file, state)
    reports = {
        name: ask(nodes, folder, *replica, patience=_ASK_ONCE)
        for name, replica in replicas(nodes, [entry.name for entry in nodes.nodes]).items()
    }
    if format == "json":
        sys.stdout.write(json.dumps(reports, indent=2) + "\n")
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    console.print(nodes_table(reports))
    console.print(queues_table(reports))


def nodes_table(reports: Mapping[str, Status | None]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for name in ("node", "role", "state", "query", "tuples", "lines", "waiting", "p95 ms", "deadline ms", "SDMR %"):
        table.add_column(name, justify="left" if name in ("node", "role", "state", "query") else "right")
    for name, about in reports.items():
        if about is None:
            table.add_row(name, "-", "does not answer", *["-"] * 7)
            continue
        queries = {q: v for q, v in about["queries"].items() if not v["sent"]} or {"-": None}
        for i, (query, v) in enumerate(queries.items()):
            first = (name, about["role"], _state(about)) if i == 0 else ("", "", "")
            table.add_row(*first, query, *(["-"] * 6 if v is None else _numbers(v)))
    return table


def _state(about: Status) -> str:
    """Describes the state of a node: how far a replica is behind, or how old its newest copy is and what all copies
    cost to send."""
    copy = about.get("copy")
    if about["role"] in ("leads", "stands by") and about["state"] == "running":
        behind = about.get("behind")
        return "warming up" if behind is None else f"running, {behind:,} behind" if behind else "running"
    if copy is None or about["role"] != COPIES:
        return str(about["state"])
    return (
        "no copy yet"
        if copy["age_s"] is None
        else f"{copy['age_s']:.0f} s old, {copy['sent_bytes'] / 1000:,.0f} KB in {copy['copies']:,}"
    )


def _numbers(query: dict[str, Any]) -> list[str]:
    sdmr = "-" if query["deadline_ms"] is None else f"{100 * query['sdmr']:.2f}"
    shown = [query["arrived"], query["out"], query["waiting"], query["p95_ms"], query["deadline_ms"]]
    return [*("-" if value is None else f"{value:,.0f}" for value in shown), sdmr]


def queues_table(reports: Mapping[str, Status | None]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for name in ("node", "stream", "comes from", "rows", "kept", "kept KB", "not acknowledged"):
        table.add_column(name, justify="right" if name in ("rows", "kept", "kept KB") else "left")
    for name, about in reports.items():
        for stream, queue in ({} if about is None else about["queues"]).items():
            assert about is not None
            source = about["from"].get(stream)
            origin = "here" if source is None else source["node"] + ("" if source["connected"] else " (not connected)")
            behind = ", ".join(f"{reader}: {lag:,}" for reader, lag in queue["lag"].items() if lag) or "-"
            table.add_row(
                name,
                stream,
                origin,
                f"{queue['end']:,}",
                f"{queue['kept_tuples']:,}",
                f"{queue['kept_bytes'] / 1000:,.0f}",
                behind,
            )
    return table
