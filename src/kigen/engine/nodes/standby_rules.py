"""What a standby means for the nodes around it: who reads what by which name, what must be kept for whom, and which
nodes can have one.

The two replicas of a node compute the same rows in the same order (kigen.lifetimes.exchange.replica_order), so whoever
reads from the node may read from either, at the same offset. The one that is read leads; the other takes its input in
batches, and keeps its results until they are acknowledged, to either. A node without memory (`forgetful`: selections,
projections of one stream) needs no input whose results are delivered: the leader acknowledges just that, and what it
acknowledged before a batch was full is never sent to the other. All others need every input. With `standby = "passive"`
the other reads nothing, and the leader acknowledges for both what the other's copy does not need any more.
"""

from __future__ import annotations

from collections.abc import Mapping

from kigen.links import Following
from kigen.placement.cutting import NodePart
from kigen.placement.nodes_file.file import NodesFile, NodesFileError
from kigen.plan.logical import LINK, Filter, PlanNode, Project, Scan, ToStream, Window, WindowKind

PASSIVE = "passive"
NEVER = 1 << 40  # rows: a batch that is never full


def replica_name(node: str, replica: int) -> str:
    """As a reader of queues, in the state directory, for people."""
    return node if replica == 0 else f"{node}.{replica}"


def check_pairing(parts: Mapping[str, NodePart], nodes: NodesFile) -> None:
    """A standby can do the work of a node whose inputs and results both travel."""
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
        if nodes.entry(name).rows_at_once is None and part.app.queries and not born and not skips(parts, name, nodes):
            why = "the standby before it leaves tuples out itself" if forgetful(part) else "it has to remember tuples"
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


def notes_on(nodes: NodesFile) -> list[str]:
    """What somebody who wrote the file should know before it runs."""
    weaker = [entry for entry in nodes.nodes if entry.standby is not None and entry.recovery != "precise"]
    return [
        f"[nodes.{entry.name}] recovery = '{entry.recovery}': replicas recover precisely, which costs no more: "
        "no result will be lost, and none comes twice"
        for entry in weaker
    ]


def forgetful(part: NodePart) -> bool:
    """One stream in, one out, and nothing between that remembers a tuple."""
    queries = part.app.queries
    if len(queries) != 1 or len(part.used) != 1 or part.received.keys() != part.used:
        return False
    return queries[0].sent and all(_forgets(node) for node in queries[0].root.walk())


def _forgets(node: PlanNode) -> bool:
    if isinstance(node, Window):
        return node.kind is WindowKind.NOW or (node.kind is WindowKind.RANGE and node.slide_us is None)
    return isinstance(node, Scan | Filter | Project) and not isinstance(node, ToStream)


def skips(parts: Mapping[str, NodePart], name: str, nodes: NodesFile) -> bool:
    """Its standby need not get every input: it is forgetful, hands nothing on, and what the node before lets go its
    acks alone decide. Not behind another that does so: a replica there has no inputs that its other one had, and cannot
    say how many results they came to here; whoever was told may be gone."""
    part = parts[name]
    if not forgetful(part):
        return False
    (stream,) = part.used
    before = parts[part.received[stream]]
    if nodes.entry(before.node).standby not in (None, PASSIVE) and skips(parts, before.node, nodes):
        return False
    return stream not in part.readers and list(before.readers[stream]) == [name] and stream not in before.used


def following(parts: Mapping[str, NodePart], name: str, nodes: NodesFile) -> Following:
    """How a replica asks for its inputs while the other leads."""
    entry = nodes.entry(name)
    if entry.standby is None:
        return Following()
    if entry.standby == PASSIVE:
        return Following(holding=True)
    rows, skipping = entry.rows_at_once, skips(parts, name, nodes)
    batch = NEVER if rows is None else None if rows == 1 else rows
    return Following(entry.compress, batch, skipping=skipping, by_hand=skipping)


def readers_of(
    part: NodePart, stream: str, parts: Mapping[str, NodePart], nodes: NodesFile
) -> tuple[list[str], list[str]]:
    """Who reads a queue of this node, and whose acks are waited for before rows are let go."""
    readers, required = [], []
    for name in part.readers.get(stream, ()):
        readers.append(name)
        required.append(name)
        if nodes.entry(name).standby is not None:
            readers.append(replica_name(name, 1))
            if nodes.entry(name).standby == PASSIVE or not skips(parts, name, nodes):
                required.append(replica_name(name, 1))
    return readers, required
