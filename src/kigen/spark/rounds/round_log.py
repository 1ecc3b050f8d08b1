"""The round log: a file per epoch and lane with every decision, written before anyone acts on it.

A line is a checksum and JSON. Invariant: the lines of a file are the rounds of its lane in order, and a line is in the
file before its round is handed out. The sink syncs the file before results of the round are visible
(kigen.spark.sink.batch_sink), so a torn last line belongs to a round that nobody has seen, and is cut off. Logs of
epochs that Spark has committed are removed, except the last few.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kigen.durable import WrittenFile, make_directories, remove, replace, sync_directory
from kigen.spark.rounds.round import Round

FOLDER = "rounds"
_FIRST = "first.json"
KEPT = 3  # epochs


def path_of(checkpoint: str | Path, epoch: int, lane: int) -> Path:
    return Path(checkpoint) / FOLDER / f"{epoch}.{lane}.log"


class RoundLog:
    """Appends the rounds of one lane in one epoch. `before` has the rounds that an earlier process logged."""

    def __init__(self, checkpoint: str | Path, epoch: int, lane: int, sync: bool) -> None:
        path = path_of(checkpoint, epoch, lane)
        make_directories(path.parent, sync)
        is_new = not path.exists()
        self.before, whole = read(path)
        self._file = WrittenFile(path, None if is_new else whole)
        if sync:
            sync_directory(path.parent)

    def append(self, text: bytes) -> None:
        """Logs a round, given as its JSON."""
        self._file.write(b"%08x %s\n" % (zlib.crc32(text), text))

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> tuple[list[Round], int]:
    """Returns the rounds of a log, and the length of its whole lines in bytes."""
    found: list[Round] = []
    whole = 0
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return found, 0
    for line in data.splitlines(keepends=True):
        text = line[9:-1]
        if not line.endswith(b"\n") or line[:8] != b"%08x" % zlib.crc32(text):
            break
        found.append(Round.decoded(text))
        whole += len(line)
    return found, whole


def epochs(checkpoint: str | Path) -> list[int]:
    """Returns the epochs that have a log, in order."""
    return sorted({epoch for epoch, _ in _files(checkpoint)})


def lanes(checkpoint: str | Path, epoch: int) -> list[Path]:
    """Returns the log files of an epoch."""
    return sorted(path for found, path in _files(checkpoint) if found == epoch)


def is_begun(checkpoint: str | Path, epoch: int) -> bool:
    """Whether a round of the epoch is logged."""
    return any(read(path)[0] for path in lanes(checkpoint, epoch))


def trim(checkpoint: str | Path, committed: int) -> None:
    """Removes the logs of epochs that are committed, up to this one, except the last few."""
    for epoch, path in _files(checkpoint):
        if epoch <= committed - KEPT:
            remove(path)


def first_offset(checkpoint: str | Path) -> dict[str, Any] | None:
    """Returns the offset before the first epoch, if a run has begun on this checkpoint."""
    try:
        found: dict[str, Any] = json.loads((Path(checkpoint) / FOLDER / _FIRST).read_bytes())
    except FileNotFoundError:
        return None
    return found


def save_first_offset(checkpoint: str | Path, offset: dict[str, Any], sync: bool) -> None:
    make_directories(Path(checkpoint) / FOLDER, sync)
    replace(Path(checkpoint) / FOLDER / _FIRST, json.dumps(offset).encode(), sync)


def _files(checkpoint: str | Path) -> Iterator[tuple[int, Path]]:
    for path in (Path(checkpoint) / FOLDER).glob("*.log"):
        epoch, _, lane = path.stem.partition(".")
        if epoch.isdigit() and lane.isdigit():
            yield int(epoch), path
