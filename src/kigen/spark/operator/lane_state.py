"""The state of a lane in Spark's state store: the manifests of its tasks in one row.

Invariant: it has the same columns as the state of one task (kigen.spark.operator.manifest). Small snapshots stand one
behind the other in the binary column.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from kigen.spark.operator.manifest import Manifest


@dataclass
class LaneState:
    """Manifests by task."""

    manifests: dict[str, Manifest] = field(default_factory=dict)

    @staticmethod
    def of(state: Any) -> LaneState:
        return LaneState.from_row(state.get) if state.exists else LaneState()

    @staticmethod
    def from_row(row: tuple[int, str, bytes | None]) -> LaneState:
        _, text, snapshots = row
        data, at = bytes(snapshots or b""), 0
        found: dict[str, Manifest] = {}
        for task, (seq, body, size) in json.loads(text)["tasks"].items():
            inline = None if size is None else data[at : at + size]
            at += size or 0
            found[task] = Manifest.from_state((seq, body, inline))
        return LaneState(found)

    def manifest(self, task: str) -> Manifest:
        return self.manifests.setdefault(task, Manifest())

    def to_state(self, epoch: int) -> tuple[int, str, bytes | None]:
        tasks: dict[str, tuple[int, str, int | None]] = {}
        parts: list[bytes] = []
        for task, manifest in self.manifests.items():
            seq, body, snapshot = manifest.to_state()
            tasks[task] = seq, body, None if snapshot is None else len(snapshot)
            parts += [] if snapshot is None else [snapshot]
        return epoch, json.dumps({"tasks": tasks}), b"".join(parts)
