"""Fills a copy of a leader's files, and measures how far the files of a passive replica are.

A copy has hard links to the checkpoint, whose files are replaced and never changed in place. It has the rows that the
output queues keep. Of the input queues it has only the offset that a replay would ask for: the upstream nodes keep the
rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kigen.engine.nodes.adoption import CHECKPOINT
from kigen.engine.nodes.node_queues import QUEUES, open_queue
from kigen.engine.nodes.replica_folders import ReplicaFolders
from kigen.links import copy_info, link_tree
from kigen.placement.cutting import NodePart
from kigen.queue import Queue

_LEFT_OUT = frozenset({"owner.json", "owner.lock", "spool"})  # of one process only


def fill_copy(part: NodePart, live: Path, queues: Mapping[str, Queue], folder: Path) -> dict[str, Any]:
    """Puts the files of a leader into a folder; returns what the follower has to know of them.

    `starts`: the inputs before these offsets are not needed. `needs`: the inputs that must be back before the run may
    begin. `position`: how far the files are.
    """
    if (live / CHECKPOINT).exists():
        link_tree(live / CHECKPOINT, folder / CHECKPOINT, _LEFT_OUT)
    starts, needs = {}, {}
    for name, queue in queues.items():
        received = name in part.received
        start, _ = queue.save(folder / QUEUES / name, rows=not received)
        if received:
            starts[name], needs[name] = start, int(queue.status()["end"])
    return {"starts": starts, "needs": needs, "position": position_of(part, queues)}


def position_of(part: NodePart, queues: Mapping[str, Queue]) -> int:
    """Measures how far files are: rows given, and rows received that nobody needs any more."""
    found = {name: queue.status() for name, queue in queues.items()}
    return sum(int(status["start" if name in part.received else "end"]) for name, status in found.items())


def position_at_start(part: NodePart, folders: ReplicaFolders, durability: str) -> int:
    folder = folders.newest
    if folder is None:
        return 0
    if folders.copy is not None:
        return int((copy_info(folder) or {}).get("position", 0))
    queues = {
        name: open_queue(part.plans[name], name, folder, durability)
        for name in part.plans
        if (folder / QUEUES / name).exists()
    }
    try:
        return position_of(part, queues)
    finally:
        for queue in queues.values():
            queue.close()
