"""The state of one (task, bucket) in Spark's state store: a snapshot of the kernel, and the references applied since.

Invariant: restoring the snapshot and replaying the references gives the kernel as it was after batch `seq`. A new
snapshot is taken when what would be replayed outweighs what the kernel holds, so snapshots cost a constant a tuple,
whatever the window. A small snapshot lies in the manifest; a large one in a file under `chunks/`, named by its content,
which the sink's process collects.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kigen.durable import DamagedFile, make_directories, replace

FORMAT = 1
STATE_SCHEMA = "seq long, manifest string, snapshot binary"
REPLAYED = 4  # a load may replay so many times what the kernel holds: snapshots then cost a quarter of a copy a tuple
LEAST_WEIGHT = 1_000_000  # and always this much: about half a second
STEP_WEIGHT = 50_000  # replaying one step costs about as much as this many tuples; it also bounds the manifest's length


Ranges = list[dict[str, Any]]
_TODO = "Restore it from a copy of the checkpoint, or start from the beginning with a new --checkpoint directory"
Reference = (
    tuple[int, Ranges] | tuple[int, Ranges, Ranges]
)  # a step's number, its ranges, and where slices run apart what those do


class ManifestFormatError(ValueError):
    """State of another Kigen."""


@dataclass
class Manifest:
    seq: int = 0
    snapshot: bytes | None = None  # inline
    chunk: str | None = None  # or the file's name
    references: list[Reference] = field(default_factory=list)  # of each step since
    base: int = 0  # the step that the snapshot was taken after
    weight: int = 0  # of the references

    @staticmethod
    def from_state(row: tuple[int, str, bytes | None]) -> Manifest:
        seq, text, snapshot = row
        body = json.loads(text)
        if body.get("v") != FORMAT:
            raise ManifestFormatError(
                f"state format {FORMAT} required, found {body.get('v')!r}: use the Kigen that wrote the checkpoint, "
                "or a new one"
            )
        inline = None if snapshot is None else bytes(snapshot)
        return Manifest(int(seq), inline, body["chunk"], body["references"], body["base"], body["weight"])

    def to_state(self) -> tuple[int, str, bytes | None]:
        body = {
            "v": FORMAT,
            "chunk": self.chunk,
            "references": self.references,
            "base": self.base,
            "weight": self.weight,
        }
        return self.seq, json.dumps(body), self.snapshot

    def add_step(self, seq: int, ranges: Ranges, rows: int, slices: Ranges | None = None) -> None:
        self.seq = seq
        self.references.append((seq, ranges) if slices is None else (seq, ranges, slices))
        self.weight += rows + STEP_WEIGHT

    def oldest_needed(self, ranges: Ranges) -> dict[str, int]:
        """Of each stream that is read by number: the first tuple that a replay of the next step, with these ranges,
        would ask for."""
        found: dict[str, int] = {}
        for piece in [*(piece for before in self.references for piece in before[1]), *ranges]:
            if "index" in piece["start"]:
                found.setdefault(piece["stream"], int(piece["start"]["index"]))
        return found

    def wants_snapshot(self, tuples_held: int) -> bool:
        return self.weight > max(REPLAYED * tuples_held, LEAST_WEIGHT)

    def take_snapshot(self, data: bytes, chunks: Path, inline_bytes: int, sync: bool = True) -> None:
        self.references, self.base, self.weight = [], self.seq, 0
        if len(data) <= inline_bytes:
            self.snapshot, self.chunk = data, None
            return
        name = _digest(data)
        if not _holds(chunks / name, data):
            make_directories(chunks, sync)
            replace(chunks / name, data, sync)
        self.snapshot, self.chunk = None, name

    def load_snapshot(self, chunks: Path) -> bytes | None:
        """Raises DamagedFile if its file is not what it was when it was named."""
        if self.chunk is None:
            return self.snapshot
        path = chunks / self.chunk
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise DamagedFile(str(path), "a snapshot that the state names is missing", _TODO) from error
        if _digest(data) != self.chunk:
            raise DamagedFile(
                str(path), f"these {len(data)} bytes are not the snapshot that the file is named by", _TODO
            )
        return data


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _holds(path: Path, data: bytes) -> bool:
    """Whether the file is there already, whole."""
    try:
        return path.read_bytes() == data
    except FileNotFoundError:
        return False
