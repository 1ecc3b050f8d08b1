"""The sink log: one file per batch that records how far every output reaches and what was counted so far.

Invariant: a record appears by a rename after all its outputs are durable, and after Spark's files up to its batch are
(kigen.spark.sink.spark_files). Cutting the outputs back to the sink positions of the last record leaves exactly the
batches up to that record. A batch that has a record, and ends where the record says, is not written again. A few older
records are kept: a start that cannot use the last one goes back to one of them (`alignment`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kigen.durable import DamagedFile, make_directories, remove, replace

FORMAT = 1
MOVE_ON = (
    "drain it with the Kigen that wrote it (kigen run --drain), then start this Kigen with a new --checkpoint directory"
)
_KEPT = 3  # records


# task -> (first batch, name of the snapshot file that its state refers to since then), the last few
Snapshots = dict[str, list[tuple[int, str | None]]]


class SinkLogFormatError(ValueError):
    """The sink log was written by another version of Kigen."""


@dataclass
class SinkRecord:
    """State of all outputs after a batch."""

    batch: int
    sink_positions: dict[str, Any]  # output -> how far it reaches; `marks` in the file
    metrics: dict[str, Any]
    finished: list[str] = field(default_factory=list)  # tasks that have written all their lines
    positions: dict[str, Any] = field(default_factory=dict)  # stream -> how far it was read
    chunks: Snapshots = field(default_factory=dict)
    skipped: dict[str, list[str]] = field(default_factory=dict)  # stream -> the first rows that were skipped
    # task -> stream -> where its part of this batch ended; None in records of older versions
    ends: dict[str, dict[str, Any]] | None = None
    # stream -> [file, range, checksum] of what this batch read
    checksums: dict[str, list[Any]] = field(default_factory=dict)
    change: int = 0  # number of the last change of the app

    def to_json(self) -> dict[str, Any]:
        return {"marks" if name == "sink_positions" else name: value for name, value in self.__dict__.items()}

    @staticmethod
    def from_json(value: dict[str, Any]) -> SinkRecord:
        """Raises TypeError for anything that is not a record."""
        return SinkRecord(**{"sink_positions" if name == "marks" else name: field for name, field in value.items()})


class SinkLog:
    """Reads and appends the records of a checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        self._directory = Path(checkpoint) / "sink"

    def all(self) -> list[SinkRecord]:
        """Returns all records that are kept, the oldest first."""
        batches = self._batches()
        return [self._read(batches[: n + 1]) for n in range(len(batches))]

    def last(self) -> SinkRecord | None:
        batches = self._batches()
        return self._read(batches) if batches else None

    def _read(self, batches: list[int]) -> SinkRecord:
        """Reads the last of these records."""
        path = self._directory / f"{batches[-1]}.json"
        try:
            value = json.loads(path.read_bytes())
            found = value.pop("v", None)
        except (ValueError, AttributeError) as error:
            older = (
                f"remove it: the run continues from batch {batches[-2]}"
                if len(batches) > 1
                else "remove it: the run begins again"
            )
            raise DamagedFile(
                str(path), f"it is torn ({_size(path)}), so it is unknown how far the outputs reach", _todo(older)
            ) from error
        if found != FORMAT:
            raise SinkLogFormatError(f"{path}: sink log format {FORMAT} required, found {found!r}: {MOVE_ON}")
        try:
            return SinkRecord.from_json(value)
        except TypeError as error:
            raise DamagedFile(
                str(path), f"it is not a record of the sink log ({error})", _todo("use a new --checkpoint directory")
            ) from error

    def append(self, record: SinkRecord, sync: bool = True) -> None:
        make_directories(self._directory, sync)
        replace(self._directory / f"{record.batch}.json", json.dumps({"v": FORMAT, **record.to_json()}).encode(), sync)
        for old in self._batches()[:-_KEPT]:
            remove(self._directory / f"{old}.json")

    def _batches(self) -> list[int]:
        return sorted(int(path.stem) for path in self._directory.glob("[0-9]*.json"))


def _size(path: Path) -> str:
    return f"{path.stat().st_size} bytes"


def _todo(what: str) -> str:
    return f"Restore it from a copy of the checkpoint, or {what}"
