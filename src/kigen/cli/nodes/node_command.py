"""`kigen node`: runs one node of a placed app, until its streams end or the user stops it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from kigen.cli.nodes.placing import NodesArguments, describe, placed_nodes
from kigen.cli.nodes.serving import pushed_over_http, require_serve, serving_node
from kigen.cli.spark_log import spark_log
from kigen.cli.stop_request import StopRequest, interruptible, take_signals
from kigen.engine import Engine, SparkDied
from kigen.engine.nodes.adoption import CHECKPOINT
from kigen.engine.nodes.node_options import NodeOptions
from kigen.engine.nodes.node_run import NodeRun
from kigen.engine.nodes.passive_node import PassiveNode
from kigen.engine.nodes.replica_folders import has_replica_folders
from kigen.placement.cutting import NodePart
from kigen.placement.nodes_file.entries import NodesFile, NodesFileError
from kigen.placement.nodes_file.values import suggest
from kigen.replicas.replica_names import replica_name
from kigen.replicas.standby_kind import PASSIVE

_POLL_S = 0.05
REPORT, GO = "report.json", "go"  # in the state directory
SPARK_DIED = 75  # exit code after Spark's JVM or one of its Python workers was killed: a restart continues
STOPPED = 128 + 15  # exit code of a node of `kigen up` that was asked to end (SIGTERM) before it was done


def node_app(name: str, arguments: NodesArguments, together: bool, replica: int = 0) -> None:
    """Runs a node. `together` means that `kigen up` started it with others: it then also reports how it ended."""
    found = placed_nodes(arguments)
    nodes, parts = found.nodes, found.parts
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
    require_serve(pushed_over_http(parts), arguments.serve, name)
    for line in describe(part):
        sys.stderr.write(line + "\n")
    output = None if arguments.output is None else str(arguments.output)
    a = arguments
    options = NodeOptions(a.state_dir, output, a.policy, a.duration_s, a.memory, found.version, a.keep_changes_s)
    engine = Engine()
    try:
        with spark_log(), interruptible() as stopped:
            node = make_node(parts, name, nodes, options, replica)
            if isinstance(node, NodeRun) and node.finishes_former:
                sys.stderr.write(f"node {me}: finishes a batch or epoch of the app before its change\n")
            try:
                with serving_node(node, arguments.serve, together):
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
        full_report = {**report, "finished": node.finished}
        (arguments.state_dir / me / REPORT).write_text(json.dumps(full_report, indent=2) + "\n", encoding="utf-8")
    sys.stderr.write(
        f"node {me}: {'done' if node.finished else 'stopped before the end; the same command continues here'}\n"
    )
    if together and stopped.is_set() and not node.finished:
        raise SystemExit(STOPPED)  # tells `kigen up` that this node is not done


def make_node(
    parts: dict[str, NodePart], name: str, nodes: NodesFile, options: NodeOptions, replica: int
) -> NodeRun | PassiveNode:
    """Creates the node. Raises NodesFileError if its files were made with another kind of standby."""
    folder, passive = options.state / replica_name(name, replica), nodes.entry(name).standby == PASSIVE
    if (folder / CHECKPOINT).exists() if passive else has_replica_folders(folder):
        kind = "another standby, or none" if passive else "standby = 'passive'"
        wrong = (
            f"[nodes.{name}] standby: the files in {folder} were made with {kind}: write that again, or start "
            "afresh with another --state"
        )
        raise NodesFileError(nodes.file, (wrong,))
    if passive:
        return PassiveNode(
            parts, name, nodes, options, replica, tell=lambda line: print(line, file=sys.stderr, flush=True)
        )
    return NodeRun(parts, name, nodes, options, replica)


def _run(engine: Engine, node: NodeRun | PassiveNode, stopped: StopRequest, go: Path | None) -> None:
    """Runs the node until it is done or a stop is requested.

    A node that `kigen up` started waits for the file `go` before its streams begin. It also stops in an orderly way if
    `kigen up` is killed.
    """
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
