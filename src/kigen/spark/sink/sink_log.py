"""The sink log: after each batch, one file that says how far every output reaches, and what was counted so far.

Invariant: a record appears by a rename after all its outputs are durable, and Spark's files up to its batch
(kigen.spark.sink.spark_files). Cutting the outputs back to the last record's marks gives exactly the batches up to that
record; a batch that has a record, and ends where the record says, is not written again. Some older records are kept: a
start that cannot use the last goes back to one (`alignment`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kigen.durable import DamagedFile, make_directories, remove, replace

FORMAT = 1
MOVE_ON = (
    "drain it with the Kigen that wrote it (kigen run --drain ends it), then start this one with a new "
    "--checkpoint directory"
)
_KEPT = 3  # records


Snapshots = dict[
    str, list[tuple[int, str | None]]
]  # task -> (since which batch, the snapshot file its state names), the last few


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
    ends: dict[str, dict[str, Any]] | None = (
        None  # task -> stream -> where its part of this very batch ended; None: an older Kigen's
    )
    checksums: dict[str, list[Any]] = field(
        default_factory=dict
    )  # stream -> [file, range, checksum] of what this batch read


class SinkLog:
    def __init__(self, checkpoint: str) -> None:
        self._directory = Path(checkpoint) / "sink"

    def last(self) -> Record | None:
        batches = self._batches()
        if not batches:
            return None
        path = self._directory / f"{batches[-1]}.json"
        try:
            value = json.loads(path.read_bytes())
            found = value.pop("v", None)
        except (ValueError, AttributeError) as error:
            older = (
                f"remove it: the run goes on from batch {batches[-2]}"
                if len(batches) > 1
                else "remove it: the run begins again"
            )
            raise DamagedFile(
                str(path), f"it is torn ({_size(path)}), so that nobody knows how far the outputs reach", _todo(older)
            ) from error
        if found != FORMAT:
            raise SinkLogFormatError(f"{path}: sink log format {FORMAT} required, found {found!r}: {MOVE_ON}")
        try:
            return Record(**value)
        except TypeError as error:
            raise DamagedFile(
                str(path), f"it is no record of the sink log ({error})", _todo("use a new --checkpoint directory")
            ) from error

    def append(self, record: Record, sync: bool = True) -> None:
        make_directories(self._directory, sync)
        replace(self._directory / f"{record.batch}.json", json.dumps({"v": FORMAT, **record.__dict__}).encode(), sync)
        for old in self._batches()[:-_KEPT]:
            remove(self._directory / f"{old}.json")

    def _batches(self) -> list[int]:
        return sorted(int(path.stem) for path in self._directory.glob("[0-9]*.json"))


def _size(path: Path) -> str:
    return f"{path.stat().st_size} bytes"


def _todo(what: str) -> str:
    return f"Restore it from a copy of the checkpoint, or {what}"
