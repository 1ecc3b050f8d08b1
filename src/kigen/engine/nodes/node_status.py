"""Describes a node at work for `kigen status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kigen.engine.run import Run
from kigen.links import Relay
from kigen.placement.cutting import NodePart
from kigen.queue import Queue

_SHOWN = ("start", "end", "kept_tuples", "kept_bytes", "lag")


def relays_status(part: NodePart, relays: Mapping[str, Relay]) -> dict[str, Any]:
    return {
        name: {
            "node": part.received[name],
            "connected": relay.connected,
            "server": relay.address,
            "rows": relay.rows,
            "wire_bytes": relay.wire.received,
            "switched": relay.switched[-5:],
        }
        for name, relay in relays.items()
    }


def queues_status(queues: Mapping[str, Queue]) -> dict[str, Any]:
    statuses = {name: queue.status() for name, queue in queues.items()}
    return {name: {key: status[key] for key in _SHOWN} for name, status in statuses.items()}


def queries_status(part: NodePart, run: Run) -> dict[str, Any]:
    return {name: {**vars(query), "sent": name in part.made} for name, query in run.progress.queries.items()}
