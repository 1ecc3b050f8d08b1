"""`kigen up`: runs all nodes of a placed app as processes on this machine, and shows what they do."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live

from kigen.cli.display import closing_table
from kigen.cli.nodes.node_command import REPORT
from kigen.cli.nodes.node_processes import Processes, memory_share
from kigen.cli.nodes.placing import NodesArguments, describe, placed_nodes
from kigen.cli.nodes.serving import nodes_that_serve, pushed_over_http, require_serve, serving_all
from kigen.cli.nodes.status_command import Status, ask, nodes_table, queues_table, replicas
from kigen.cli.stop_request import interruptible
from kigen.engine.changes.description import difference_text
from kigen.engine.errors import ArgumentError
from kigen.engine.nodes.adoption import forget_node
from kigen.engine.nodes.node_options import security_of
from kigen.placement.cutting import parts_below, parts_used
from kigen.placement.nodes_file.entries import NodesFile

_PLAIN_EVERY_S = 5.0
_ENDING_S, _ASK_S = 20.0, 0.5  # nodes whose 'kigen up' was killed notice that, and end


def up_app(arguments: NodesArguments, report: Path | None) -> None:
    """Places the app, runs all nodes to the end and merges their reports."""
    found = placed_nodes(arguments, lambda nodes: _require_change_possible(arguments, nodes))
    nodes, parts = found.nodes, found.parts
    for note in found.placed.notes:
        sys.stderr.write(f"warning: {note}\n")
    if found.found is not None:
        sys.stderr.write(f"the app has changed since the last run on {arguments.state_dir}:\n")
        sys.stderr.write(difference_text(found.found))
    require_serve(pushed_over_http(parts), arguments.serve)
    used = parts_used(parts)
    for name in (name for name in parts if name not in used and nodes.entry(name).standby is None):
        forget_node(arguments.state_dir / name)
    for name in used:
        security_of(nodes, name, arguments.state_dir)  # raises what a node would raise, before one is started
        sys.stderr.write("\n".join(describe(parts[name])) + "\n")
    sys.stderr.write(f"state: {arguments.state_dir}\n")
    result_nodes = {q.name: name for name in used for q in parts[name].app.queries if not q.sent}
    all_replicas = replicas(nodes, used)
    memory_share(arguments.memory, len(all_replicas))
    readers = {name: parts[name].read_by for name in used}
    serving = [] if arguments.serve is None else nodes_that_serve(parts, nodes)
    with (
        interruptible() as stopped,
        serving_all(found.app, parts, nodes, arguments.state_dir, arguments.serve) as served,
        Processes(arguments, all_replicas, readers, serving) as processes,
    ):
        display = _Display(nodes, arguments.state_dir, all_replicas)

        def show(running: Collection[str]) -> dict[str, Status | None]:
            reports = display.show(running)
            if served is not None:
                served.tell(reports)
            return reports

        with display:
            finished = processes.run(stopped, show)
    merged = merge_reports(arguments.state_dir, result_nodes, parts_below(parts))
    if report is not None:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(json.dumps(merged, indent=2) + "\n", encoding="utf-8")
    if merged["queries"]:
        closing_table(merged, {})
    if not finished or not merged["finished"]:
        sys.stderr.write(f"stopped before the end; the same command continues from {arguments.state_dir}\n")
    sys.stderr.write(f"logs of the nodes: {arguments.state_dir}/*/log\n")


def _require_change_possible(arguments: NodesArguments, nodes: NodesFile) -> None:
    """Raises ArgumentError if the app must not change, or while nodes still run the one before the change."""
    if arguments.no_change:
        raise ArgumentError(
            f"the app is not the one of {arguments.state_dir}, and --no-change was given: undo the change to continue, "
            "or give another --state directory to start from the beginning"
        )
    running, until = replicas(nodes, [entry.name for entry in nodes.nodes]), time.monotonic() + _ENDING_S
    while answering := [name for name, which in running.items() if ask(nodes, arguments.state_dir, *which) is not None]:
        if time.monotonic() >= until:
            raise ArgumentError(
                f"node {answering[0]} runs the app before the change: end 'kigen up' (or 'kigen node') first, then run "
                "this command again"
            )
        time.sleep(_ASK_S)


def merge_reports(
    state: Path, result_nodes: dict[str, str], below: dict[str, list[tuple[str, tuple[str, ...]]]]
) -> dict[str, Any]:
    """Merges the reports of nodes into one, with each query's numbers from the node that gives its results.

    Numbers of the whole run are those of the node that took longest. Latencies are end to end. What nodes on the way
    dropped (`below`: kigen.placement.cutting.parts_below) never came to the last one, and is added to `in` and `shed`.
    A node that makes several streams of the same ones drops a tuple in each: it counts once.
    """
    named = {*result_nodes.values(), *(node for ways in below.values() for node, _ in ways)}
    files = {name: state / name / REPORT for name in sorted(named)}
    read = {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.exists()}
    found = {name: read[name] for name in dict.fromkeys(result_nodes.values()) if name in read}
    slowest: dict[str, Any] = max(found.values(), key=lambda r: r["wall_s"], default={})
    whole = {key: slowest.get(key) for key in ("policy", "lifetime", "wall_s", "batch_ms")}
    queries = {}
    for query, node in result_nodes.items():
        if node in found:
            mine = {**found[node]["queries"][query], "node": node}
            for before, names in below.get(query, ()):
                counted = read.get(before, {}).get("queries", {})
                mine = _with_dropped(mine, max((counted[n]["shed"] for n in names if n in counted), default=0))
            queries[query] = mine
    finished = bool(found) and all(r["finished"] for r in found.values())  # False: --duration ended the run
    return {**whole, "batches": sum(r["batches"] for r in found.values()), "queries": queries, "finished": finished}


def _with_dropped(query: dict[str, Any], count: int) -> dict[str, Any]:
    """Adds tuples that were dropped on the way to the numbers of a query."""
    arrived, shed = query["in"] + count, query["shed"] + count
    sdmr = (query["missed"] + shed + query["dropped"]) / arrived if arrived else 0.0
    return {**query, "in": arrived, "shed": shed, "sdmr": sdmr}


class _Display:
    """Shows all nodes: a table that is refreshed on a terminal, lines elsewhere."""

    def __init__(self, nodes: NodesFile, state: Path, replicas: dict[str, tuple[str, int]]) -> None:
        self._nodes, self._state, self._replicas = nodes, state, replicas
        self._console = Console(stderr=True)
        self._live: Live | None = None
        self._shown_at = time.monotonic()

    def __enter__(self) -> _Display:
        if self._console.is_terminal:
            self._live = Live(console=self._console, transient=True, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, running: Collection[str]) -> dict[str, Status | None]:
        reports = {
            name: ask(self._nodes, self._state, *replica) if name in running else {**_DONE, "node": name}
            for name, replica in self._replicas.items()
        }
        if self._live is not None:
            self._live.update(Group(nodes_table(reports), queues_table(reports)))
        elif time.monotonic() - self._shown_at >= _PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            sys.stderr.write("; ".join(_plain(name, about) for name, about in reports.items()) + "\n")
        return reports


_DONE: Status = {"role": "-", "state": "done", "queries": {}, "queues": {}, "from": {}, "pid": os.getpid()}


def _plain(name: str, about: Status | None) -> str:
    if about is None:
        return f"{name}: does not answer"
    lines = sum(q["out"] for q in about["queries"].values() if not q["sent"])
    return (
        f"{name}: {about['state']}, {lines} lines, {sum(q['kept_tuples'] for q in about['queues'].values())} rows kept"
    )
