"""The state of one (task, bucket) in Spark's state store: a snapshot of the kernel and the input applied since.

The input is recorded as references: the ranges of each step, not the tuples. Invariant: restoring the snapshot and
replaying the references gives the kernel as it was after batch `seq`. A new snapshot is taken when the replay would
outweigh what the kernel holds. So snapshots cost a constant per tuple, whatever the window. A small snapshot is part of
the manifest. A large one is a file under `chunks/`, named by its content. The sink's process deletes old files.
References are kept as JSON: an epoch makes thousands per task, and the garbage collector visits every object.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kigen.durable import DamagedFile, make_directories, replace

FORMAT = 1
STATE_SCHEMA = "seq long, manifest string, snapshot binary"
REPLAYED = 4  # a replay may be this many times what the kernel holds: snapshots then cost a quarter of a copy per tuple
LEAST_WEIGHT = 1_000_000  # a replay may always be this long: about half a second
_OF_QUEUE = 0.25  # a replay may need this share of what a queue can hold
STEP_WEIGHT = 50_000  # replaying a step costs as much as this many tuples; this also bounds the length of the manifest


Ranges = list[dict[str, Any]]
_TODO = "Restore it from a copy of the checkpoint, or start from the beginning with a new --checkpoint directory"
# Number of a step, its ranges, and if slices run separately the moves of the later slices.
Reference = tuple[int, Ranges] | tuple[int, Ranges, Ranges]
_REFERENCES = ', "references": [%s]}'


class ManifestFormatError(ValueError):
    """The state was written by another version of Kigen."""


@dataclass
class Manifest:
    """Snapshot of a kernel and references since. The keys of its JSON are part of the checkpoint format."""

    seq: int = 0  # the last step
    snapshot: bytes | None = None  # inline
    chunk: str | None = None  # or the file's name
    encoded: list[str] = field(default_factory=list)  # one reference per step since the snapshot, as JSON
    base: int = 0  # the step after which the snapshot was taken
    weight: int = 0  # cost of replaying the references, in tuples
    queued_bytes: int = 0  # size of the references' tuples that a queue must keep until then

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
        encoded = [json.dumps(reference) for reference in body["references"]]
        queued_bytes = body.get("queued_bytes", 0)  # older versions of Kigen did not write it
        return Manifest(int(seq), inline, body["chunk"], encoded, body["base"], body["weight"], queued_bytes)

    def to_state(self) -> tuple[int, str, bytes | None]:
        fixed = {"v": FORMAT, "chunk": self.chunk, "base": self.base, "weight": self.weight}
        body = json.dumps(fixed | ({"queued_bytes": self.queued_bytes} if self.queued_bytes else {}))
        return self.seq, body[:-1] + _REFERENCES % ", ".join(self.encoded), self.snapshot

    @property
    def references(self) -> Iterator[Reference]:
        """Yields the input of each step since the snapshot."""
        yield from map(json.loads, self.encoded)

    def add_step(
        self, seq: int, ranges: Ranges, rows: int, slices: Ranges | None = None, queued_bytes: int = 0
    ) -> None:
        self.seq = seq
        self.queued_bytes += queued_bytes
        self.encoded.append(json.dumps((seq, ranges) if slices is None else (seq, ranges, slices)))
        self.weight += rows + STEP_WEIGHT

    def oldest_needed(self, ranges: Ranges) -> dict[str, int]:
        """Returns the first offset that a replay of the next step, with these ranges, would read.

        Has only streams that are read by offset.
        """
        found: dict[str, int] = {}
        for piece in [*(piece for before in self.references for piece in before[1]), *ranges]:
            if "index" in piece["start"]:
                found.setdefault(piece["stream"], int(piece["start"]["index"]))
        return found

    def wants_snapshot(self, tuples_held: int, queue_bytes: int) -> bool:
        """Returns whether a replay would take too long, or needs so much of a queue that it might have no room left."""
        return self.weight > max(REPLAYED * tuples_held, LEAST_WEIGHT) or self.queued_bytes > _OF_QUEUE * queue_bytes

    def take_snapshot(self, data: bytes, chunks: Path, inline_bytes: int, sync: bool = True) -> None:
        self.encoded, self.base, self.weight, self.queued_bytes = [], self.seq, 0, 0
        if len(data) <= inline_bytes:
            self.snapshot, self.chunk = data, None
            return
        name = _digest(data)
        if not _holds(chunks / name, data):
            make_directories(chunks, sync)
            replace(chunks / name, data, sync)
        self.snapshot, self.chunk = None, name

    def load_snapshot(self, chunks: Path) -> bytes | None:
        """Returns the snapshot, if there is one. Raises DamagedFile if its file is missing or changed."""
        if self.chunk is None:
            return self.snapshot
        path = chunks / self.chunk
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise DamagedFile(str(path), "a snapshot that the state refers to is missing", _TODO) from error
        if _digest(data) != self.chunk:
            raise DamagedFile(str(path), f"its {len(data)} bytes do not match the checksum in its name", _TODO)
        return data


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _holds(path: Path, data: bytes) -> bool:
    """Checks whether the file exists already with this content."""
    try:
        return path.read_bytes() == data
    except FileNotFoundError:
        return False
