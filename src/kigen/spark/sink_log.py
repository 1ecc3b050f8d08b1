"""The sink log: after each batch, one file that says how far every output reaches, and what was counted so far.

Invariant: a record appears by a rename after all its outputs are durable. Cutting the outputs back to the last record's marks gives
exactly the batches up to that record; a batch that has a record is not written again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kigen.spark.scratch import replace

FORMAT = 1
_KEPT = 3  # records


Snapshots = dict[str, list[tuple[int, str | None]]]  # task -> (since which batch, the snapshot file its state names), the last few


class SinkLogFormatError(ValueError):
    """A sink log of another Kigen."""


@dataclass
class Record:
    batch: int
    marks: dict[str, Any]  # output -> how far it reaches
    metrics: dict[str, Any]
    finished: list[str] = field(default_factory=list)  # tasks whose lines are all out
    positions: dict[str, Any] = field(default_factory=dict)  # stream -> how far it was read
    chunks: Snapshots = field(default_factory=dict)
    skipped: dict[str, list[str]] = field(default_factory=dict)  # stream -> the first rows that were skipped


class SinkLog:
    def __init__(self, checkpoint: str) -> None:
        self._directory = Path(checkpoint) / "sink"

    def last(self) -> Record | None:
        batches = self._batches()
        if not batches:
            return None
        path = self._directory / f"{batches[-1]}.json"
        value = json.loads(path.read_bytes())
        if value.pop("v", None) != FORMAT:
            raise SinkLogFormatError(f"{path}: sink log format {FORMAT} required: use the Kigen that wrote the checkpoint, or a new one")
        return Record(**value)

    def append(self, record: Record) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        replace(self._directory / f"{record.batch}.json", json.dumps({"v": FORMAT, **record.__dict__}).encode(), durable=True)
        for old in self._batches()[:-_KEPT]:
            (self._directory / f"{old}.json").unlink()

    def _batches(self) -> list[int]:
        return sorted(int(path.stem) for path in self._directory.glob("[0-9]*.json"))
