"""Opens the queues of a node: files below its folder, with the readers that the placed app gives them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kigen.durable import POWER
from kigen.engine.nodes.standby_rules import readers_of
from kigen.lifetimes.exchange.sent import queue_schema
from kigen.placement.cutting import NodePart, SentStream
from kigen.placement.nodes_file.entries import NodesFile
from kigen.queue import ENDED, Queue, QueueSettings

SELF = "spark"  # this node's own run, as a reader of its queues
QUEUES = "queues"  # below a node's folder


def open_queue(
    sent: SentStream, name: str, folder: Path, durability: str, max_bytes: int = QueueSettings.max_bytes
) -> Queue:
    fsync = "always" if durability == POWER else "never"
    return Queue(
        name,
        queue_schema(sent.plan.schema, sent.is_stream),
        QueueSettings(folder=folder / QUEUES, durable=True, fsync=fsync, max_bytes=max_bytes),
    )


def open_queues(
    parts: Mapping[str, NodePart], node: str, nodes: NodesFile, folder: Path, durability: str
) -> dict[str, Queue]:
    """Opens all queues of a node, and sets who reads each of them and whose acks are waited for."""
    part, queues = parts[node], dict[str, Queue]()
    for name in part.plans:
        queue = queues[name] = open_queue(part.plans[name], name, folder, durability)
        readers, required = readers_of(part, name, parts, nodes)
        own = [SELF] if name in part.used else []
        for reader in readers + own:
            queue.open_reader(reader)
        queue.require(required + own)
    return queues


def is_ended(queue: Queue) -> bool:
    """Whether all that will ever come is in the queue."""
    return bool(queue.status()["progress_us"] == ENDED)


def is_delivered(queue: Queue) -> bool:
    """Whether the queue has ended, and every reader has everything."""
    status = queue.status()
    return bool(status["progress_us"] == ENDED and status["kept_tuples"] == 0)
