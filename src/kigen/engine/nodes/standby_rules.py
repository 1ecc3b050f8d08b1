"""Derives from a placed app what a standby means for the nodes around it: which kind it is, who reads what under which
name, whose acks are waited for, and which nodes can have a standby at all.

The two replicas of a node compute the same rows in the same order (`kigen.lifetimes.exchange.replica_order`), so a
downstream node may read from either, at the same offset. The one that is read leads. The follower takes its input in
batches, and keeps its results until they are acknowledged to either replica. A node without memory (filters and
projections of one stream) needs no input whose results are delivered: its leader acknowledges just that, and what it
acknowledged before a batch was full is never sent to the follower. All other nodes need every input. With
`standby = "passive"` the follower reads nothing, and the leader acknowledges for both replicas what the follower's copy
does not need any more.
"""

from __future__ import annotations

from collections.abc import Mapping

from kigen.placement.cutting import NodePart
from kigen.placement.nodes_file.entries import NodesFile, NodesFileError
from kigen.plan.logical import LINK, Filter, PlanNode, Project, Scan, ToStream, Window, WindowKind
from kigen.replicas.replica_names import replica_name
from kigen.replicas.standby_kind import PASSIVE, StandbyKind, standby_kind


def check_pairing(parts: Mapping[str, NodePart], nodes: NodesFile) -> None:
    """Raises NodesFileError unless both the inputs and the results of every node with a standby travel."""
    errors = []
    for name, part in parts.items():
        if nodes.entry(name).standby is None:
            continue
        born = [s.name for s in part.app.streams if s.source.name != LINK]
        wanted = [q.name for q in part.app.queries if not q.sent]
        if born:
            errors.append(
                f"[nodes.{name}] standby: stream {born[0]} is born there; a standby needs its inputs from other nodes"
            )
        needs_all = not skips_trimmed(parts, name, nodes)
        if nodes.entry(name).rows_at_once is None and part.app.queries and not born and needs_all:
            why = (
                "the standby before it leaves tuples out itself" if has_no_memory(part) else "it has to remember tuples"
            )
            errors.append(
                f"[nodes.{name}] standby = 'upstream': {why}, so the whole stream would be kept before it; "
                "write standby = 'lazy' and a batch, such as batch = 100"
            )
        if wanted:
            errors.append(
                f"[nodes.{name}] standby: results of {wanted[0]} are wanted there; a standby needs them wanted on "
                "another node"
            )
    if errors:
        raise NodesFileError(nodes.file, tuple(errors))


def has_no_memory(part: NodePart) -> bool:
    """Whether the node has one stream in, one out, and nothing between them that remembers a tuple."""
    queries = part.app.queries
    if len(queries) != 1 or len(part.used) != 1 or part.received.keys() != part.used:
        return False
    return queries[0].sent and all(_remembers_nothing(node) for node in queries[0].root.walk())


def _remembers_nothing(node: PlanNode) -> bool:
    if isinstance(node, Window):
        return node.kind is WindowKind.NOW or (node.kind is WindowKind.RANGE and node.slide_us is None)
    return isinstance(node, Scan | Filter | Project) and not isinstance(node, ToStream)


def skips_trimmed(parts: Mapping[str, NodePart], name: str, nodes: NodesFile) -> bool:
    """Whether the follower of this node can do without some inputs.

    The node must have no memory and hand nothing on, and its acks alone must decide what the upstream node trims. It
    must not lie behind another node whose follower does without inputs: a replica there has not seen the inputs that
    its other one had, and cannot report how many results they gave here. Whoever was told that number may be gone.
    """
    part = parts[name]
    if not has_no_memory(part):
        return False
    (stream,) = part.used
    before = parts[part.received[stream]]
    if nodes.entry(before.node).standby not in (None, PASSIVE) and skips_trimmed(parts, before.node, nodes):
        return False
    return stream not in part.readers and list(before.readers[stream]) == [name] and stream not in before.used


def kind_of(parts: Mapping[str, NodePart], name: str, nodes: NodesFile) -> StandbyKind:
    """Returns the kind of a node's standby, as its nodes file and its queries give it."""
    entry = nodes.entry(name)
    skips = entry.standby not in (None, PASSIVE) and skips_trimmed(parts, name, nodes)
    return standby_kind(entry.standby, entry.rows_at_once, entry.compress, skips, entry.period_us)


def readers_of(
    part: NodePart, stream: str, parts: Mapping[str, NodePart], nodes: NodesFile
) -> tuple[list[str], list[str]]:
    """Lists who reads a queue of this node, and whose acks are waited for before rows are trimmed."""
    readers, required = list[str](), list[str]()
    for name in part.readers.get(stream, ()):
        kind = kind_of(parts, name, nodes)
        readers += [replica_name(name, replica) for replica in range(kind.replicas)]
        required += kind.required(name)
    return readers, required
