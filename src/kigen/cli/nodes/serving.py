"""`--serve` of `kigen up` and `kigen node`.

A node serves its own run: what is pushed there, and what its queries give. `kigen up` starts every node with a server
on loopback, at a free port that the node reports with its status, and serves one address for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kigen.cli.serving import say_where, web
from kigen.engine.errors import ArgumentError
from kigen.engine.nodes.adoption import CHECKPOINT
from kigen.engine.nodes.node_run import NodeRun
from kigen.engine.nodes.passive_node import PassiveNode
from kigen.placement.cutting import NodePart
from kigen.placement.nodes_file.entries import NodesFile
from kigen.plan.logical import App

if TYPE_CHECKING:
    from kigen.web.nodes import ServedNodes

ANY_PORT = "127.0.0.1:0"
SERVE_FOLDER = "serve"  # below the state directory


def pushed_over_http(parts: Mapping[str, NodePart]) -> dict[str, str]:
    """Returns each stream FROM http that is read, with its node. Raises ArgumentError if it would have two queues."""
    found: dict[str, str] = {}
    for name, part in parts.items():
        for stream in (s.name for s in part.app.streams if s.source.name == "http"):
            if stream in found:
                raise ArgumentError(
                    f"stream {stream} takes tuples over HTTP, and {found[stream]} and {name} read it: write one node "
                    f"after born, below [streams.{stream}]"
                )
            found[stream] = name
    return found


def require_serve(streams: Mapping[str, str], serve: str | None, node: str | None = None) -> None:
    """Raises ArgumentError if a stream takes tuples over HTTP, at this node, and nothing would serve it."""
    for stream, at in streams.items():
        if serve is None and node in (None, at):
            raise ArgumentError(f"stream {stream} takes tuples over HTTP: add --serve, or --serve HOST:PORT")


def nodes_that_serve(parts: Mapping[str, NodePart], nodes: NodesFile) -> list[str]:
    """Returns the nodes with something to serve. A node with a standby has no stream and no result of its own."""
    return [name for name, part in parts.items() if part.app.queries and nodes.entry(name).standby is None]


@contextmanager
def serving_node(node: NodeRun | PassiveNode, serve: str | None, together: bool) -> Iterator[None]:
    """Serves a node while the block runs, if the user wants it. `kigen up` finds the address in the node's status."""
    if serve is None:
        yield
        return
    run = node.run if isinstance(node, NodeRun) and not node.paired else None
    if run is None:
        raise ArgumentError(f"--serve: node {node.name} gives no results and no stream is born there: leave it out")
    assert isinstance(node, NodeRun)
    with web().serve(run, serve) as server:
        node.serves = str(server.address)
        if not together:
            say_where(server)
        yield


@contextmanager
def serving_all(
    app: App, parts: Mapping[str, NodePart], nodes: NodesFile, state: Path, serve: str | None
) -> Iterator[ServedNodes | None]:
    """Serves an app on its nodes while the block runs, if the user wants it."""
    if serve is None:
        yield None
        return
    web()
    from kigen.web.nodes import ServedNodes, serve_nodes

    results = {q.name: name for name, part in parts.items() for q in part.app.queries if not q.sent}
    tokens = {name: state / name / CHECKPOINT / "serve" / "token" for name in nodes_that_serve(parts, nodes)}
    served = ServedNodes(app, pushed_over_http(parts), results, tokens)
    with serve_nodes(served, state / SERVE_FOLDER, serve) as server:
        say_where(server)
        yield served
