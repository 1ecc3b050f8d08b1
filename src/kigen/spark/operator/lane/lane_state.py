"""The state of a lane in Spark's state store: the manifests of its tasks in one row.

Invariant: it has the same columns as the state of one task (kigen.spark.operator.manifest). Small snapshots stand one
behind the other in the binary column.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from kigen.spark.operator.manifest import Manifest

StateRow = tuple[int, str, bytes | None]  # as Spark's state store has it (kigen.spark.operator.manifest)


@dataclass
class LaneState:
    """Manifests by task."""

    manifests: dict[str, Manifest] = field(default_factory=dict)

    @staticmethod
    def of(row: StateRow | None) -> LaneState:
        return LaneState() if row is None else LaneState.from_row(row)

    @staticmethod
    def from_row(row: StateRow) -> LaneState:
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

    def to_state(self, epoch: int) -> StateRow:
        tasks: dict[str, tuple[int, str, int | None]] = {}
        parts: list[bytes] = []
        for task, manifest in self.manifests.items():
            seq, body, snapshot = manifest.to_state()
            tasks[task] = seq, body, None if snapshot is None else len(snapshot)
            parts += [] if snapshot is None else [snapshot]
        return epoch, json.dumps({"tasks": tasks}), b"".join(parts)
