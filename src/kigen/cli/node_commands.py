"""`kigen node` and `kigen status`: one node of a placed app, and what all of them say of themselves."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kigen.cli.asked_to_stop import AskedToStop
from kigen.cli.explain_placement import load_nodes, load_profile, place
from kigen.cli.loading import load
from kigen.cli.run_command import interruptible, spark_log, take_signals
from kigen.connectors.options import duration_us
from kigen.durable import replace
from kigen.engine import Engine, SparkDied
from kigen.engine.errors import AppNotFound
from kigen.engine.nodes.batch_advice import with_batches
from kigen.engine.nodes.node_options import NodeOptions, security_of
from kigen.engine.nodes.node_run import CHECKPOINT, NodeRun
from kigen.engine.nodes.passive_node import PassiveNode
from kigen.engine.nodes.replica_folders import has_replica_folders
from kigen.engine.nodes.standby_rules import check_pairing
from kigen.engine.options import RunOptions
from kigen.links import STATUS, Link, LinkRefused, Patience
from kigen.placement.cutting import NodePart, cut
from kigen.placement.from_plan import from_plan
from kigen.placement.nodes_file.file import NodesFile, NodesFileError
from kigen.placement.nodes_file.values import suggest
from kigen.placement.result import Placement
from kigen.placement.stored import fingerprint, from_json, to_json
from kigen.queue import QueueError
from kigen.replicas.replica_names import replica_name
from kigen.replicas.roles import COPIES
from kigen.replicas.standby_kind import PASSIVE
from kigen.spark.defaults import DEFAULT_MEMORY

_POLL_S = 0.05
_ASK = Patience(patience_s=0.0, call_s=1.0)  # again and again
_ASK_ONCE = Patience(patience_s=0.0, call_s=10.0)  # a busy node answers late
PLACEMENT, REPORT, GO = "placement.json", "report.json", "go"
SPARK_DIED = 75  # exit code of one whose JVM, or a Python worker of it, was killed: started again, it goes on
STOPPED = 128 + 15  # exit code of one of `kigen up`'s nodes that was asked to end (SIGTERM) before it was done


@dataclass(frozen=True)
class NodesArguments:
    app_file: Path
    nodes_file: Path
    allocate: str
    time_limit_s: float
    profile: Path | None
    state: Path | None
    output: Path | None
    policy: str
    duration: str | None
    memory: str = DEFAULT_MEMORY

    def __post_init__(self) -> None:
        """What every node would refuse is refused before one is started."""
        RunOptions(policy=self.policy, duration_s=self.duration_s, memory=self.memory)

    @property
    def state_dir(self) -> Path:
        return state_of(self.nodes_file, self.state)

    @property
    def duration_s(self) -> float | None:
        return None if self.duration is None else duration_us("kigen", "--duration", self.duration) / 1e6


def state_of(nodes_file: Path, given: Path | None) -> Path:
    """Where nodes keep what they must not lose, the token among it."""
    return (given or nodes_file.with_suffix(".state")).absolute()


def placed_parts(arguments: NodesArguments) -> tuple[NodesFile, Placement, dict[str, NodePart]]:
    """What every node does. The placement is decided once and kept in the state directory: all nodes, and restarts,
    work by the same."""
    app, (nodes, chosen) = load(arguments.app_file, arguments.output), with_batches(load_nodes(arguments.nodes_file))
    for note in chosen:
        sys.stderr.write(note + "\n")
    profile = load_profile(arguments.profile)
    planned = from_plan(app, nodes, profile)
    of, file = fingerprint(app, planned, nodes, arguments.allocate), arguments.state_dir / PLACEMENT
    if file.exists():
        placed = from_json(_json(file), of, str(file))
    else:
        placed = place(app, nodes, profile, arguments.allocate, arguments.time_limit_s)[1]
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, json.dumps(to_json(placed, of), indent=1).encode(), sync=True)
    parts = cut(app, nodes, planned, placed)
    check_pairing(parts, nodes)
    return nodes, placed, parts


def _json(file: Path) -> Any:
    """None if it is damaged."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return None


def node_app(name: str, arguments: NodesArguments, together: bool, replica: int = 0) -> None:
    nodes, _, parts = placed_parts(arguments)
    if name not in parts:
        raise NodesFileError(
            nodes.file, (f"there is no node '{name}'; {suggest(name, tuple(parts), 'the nodes are')}",)
        )
    part = parts[name]
    if replica and nodes.entry(name).standby is None:
        raise NodesFileError(
            nodes.file, (f"node '{name}' has no standby: write standby = \"lazy\" below [nodes.{name}]",)
        )
    me = replica_name(name, replica)
    for line in describe(part):
        sys.stderr.write(line + "\n")
    output = None if arguments.output is None else str(arguments.output)
    options = NodeOptions(arguments.state_dir, output, arguments.policy, arguments.duration_s, arguments.memory)
    engine = Engine()
    try:
        with spark_log(), interruptible() as stopped:
            node = make_node(parts, name, nodes, options, replica)
            try:
                _run(engine, node, stopped, arguments.state_dir / GO if together else None)
            finally:
                try:
                    report = node.stop()
                finally:
                    engine.close()
    except SparkDied as error:
        if not together:
            raise
        sys.stderr.write(f"{error}\n")
        raise SystemExit(SPARK_DIED) from error
    if report is not None:
        told = {**report, "finished": node.finished}
        (arguments.state_dir / me / REPORT).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    sys.stderr.write(
        f"node {me}: {'done' if node.finished else 'stopped before the end; the same command goes on from here'}\n"
    )
    if together and stopped.is_set() and not node.finished:
        raise SystemExit(STOPPED)  # `kigen up` must not take it for done


def make_node(
    parts: dict[str, NodePart], name: str, nodes: NodesFile, options: NodeOptions, replica: int
) -> NodeRun | PassiveNode:
    """Raises NodesFileError if its files are those of another kind of standby."""
    folder, passive = options.state / replica_name(name, replica), nodes.entry(name).standby == PASSIVE
    if (folder / CHECKPOINT).exists() if passive else has_replica_folders(folder):
        kind = "another standby, or none" if passive else "standby = 'passive'"
        wrong = (
            f"[nodes.{name}] standby: the files in {folder} were made with {kind}: write that again, or begin "
            "anew with another --state"
        )
        raise NodesFileError(nodes.file, (wrong,))
    if passive:
        return PassiveNode(
            parts, name, nodes, options, replica, tell=lambda line: print(line, file=sys.stderr, flush=True)
        )
    return NodeRun(parts, name, nodes, options, replica)


def _run(engine: Engine, node: NodeRun | PassiveNode, stopped: AskedToStop, go: Path | None) -> None:
    """`go`: this node is one of `kigen up`. It waits for that file, and ends in good order should `kigen up` be
    killed."""
    parent = os.getppid()

    def over() -> bool:
        return stopped.wait(_POLL_S) or (go is not None and os.getppid() != parent)

    def ready() -> None:
        while go is not None and not go.exists() and not over():
            pass

    spark = engine.spark if node.needs_spark else None
    take_signals(stopped)
    if stopped.is_set():
        return
    node.begin(spark, ready)
    while node.active and not over():
        pass


def describe(part: NodePart) -> list[str]:
    """What a node does, in a few lines."""
    wanted = [q.name for q in part.app.queries if not q.sent]
    lines = [f"node {part.node}: " + (f"gives {', '.join(wanted)}" if wanted else "gives nothing itself")]
    for name, before in part.received.items():
        lines.append(f"  takes {name} from {before}" + ("" if name in part.used else " and hands it on"))
    lines += [f"  sends {name} to {', '.join(readers)}" for name, readers in part.readers.items()]
    return lines


# --- status
# ------------------------------------------------------------------------------------------------------------


def replicas(nodes: NodesFile, names: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Every process there is to be: its name, its node and which of its replicas it is."""
    found = [(name, replica) for name in names for replica in range(len(nodes.entry(name).addresses))]
    return {replica_name(name, replica): (name, replica) for name, replica in found}


def ask(nodes: NodesFile, state: Path, name: str, replica: int = 0, patience: Patience = _ASK) -> dict[str, Any] | None:
    """What a node says; None if it does not answer. Raises if it refuses to."""
    entry = nodes.entry(name)
    link = Link(entry.addresses[replica], security_of(nodes, None, state).as_role(STATUS), patience)
    try:
        return link.about() or None  # it has begun to serve, and has nothing to say yet
    except LinkRefused:
        raise
    except QueueError:
        return None
    finally:
        link.close()


def show_status(nodes_file: Path, format: str, state: Path | None = None) -> None:
    if format not in ("text", "json"):
        raise AppNotFound(f"--format {format}: text or json is required")
    nodes, folder = load_nodes(nodes_file), state_of(nodes_file, state)
    told = {
        me: ask(nodes, folder, *which, patience=_ASK_ONCE)
        for me, which in replicas(nodes, [entry.name for entry in nodes.nodes]).items()
    }
    if format == "json":
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    console.print(nodes_table(told))
    console.print(queues_table(told))


def nodes_table(told: dict[str, dict[str, Any] | None]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for name in ("node", "role", "state", "query", "tuples", "lines", "waiting", "p95 ms", "deadline ms", "SDMR %"):
        table.add_column(name, justify="left" if name in ("node", "role", "state", "query") else "right")
    for name, about in told.items():
        if about is None:
            table.add_row(name, "-", "does not answer", *["-"] * 7)
            continue
        queries = {q: v for q, v in about["queries"].items() if not v["sent"]} or {"-": None}
        for i, (query, v) in enumerate(queries.items()):
            first = (name, about["role"], _state(about)) if i == 0 else ("", "", "")
            table.add_row(*first, query, *(["-"] * 6 if v is None else _numbers(v)))
    return table


def _state(about: dict[str, Any]) -> str:
    """Of one of two replicas also how far it is; if it keeps copies, how old the newest is, and what all of them
    weighed on the way."""
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


def queues_table(told: dict[str, dict[str, Any] | None]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for name in ("node", "stream", "comes from", "rows", "kept", "kept KB", "not yet done with"):
        table.add_column(name, justify="right" if name in ("rows", "kept", "kept KB") else "left")
    for name, about in told.items():
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
