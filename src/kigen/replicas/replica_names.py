"""Names of the two replicas of a node, as queues know their readers and as people see them.

Replica 0 has the name of its node, replica 1 has `.1` behind it. Names of nodes contain no dot.
"""

from __future__ import annotations

from collections.abc import Iterable


def replica_name(node: str, replica: int) -> str:
    """Names a replica: as a reader of queues, as a folder of the state directory, and for people."""
    return node if replica == 0 else f"{node}.{replica}"


def node_of(replica: str) -> str:
    return replica.partition(".")[0]


def required_with_leader(required: Iterable[str], leader: str) -> list[str]:
    """Lists the readers whose acks an upstream queue waits for, once `leader` has said that it leads.

    Its acks count instead of those of the other replica of the same node; readers of other nodes stay.
    """
    return [*(name for name in required if node_of(name) != node_of(leader)), leader]
