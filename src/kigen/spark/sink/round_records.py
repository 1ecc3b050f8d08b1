"""Records which rounds of the running epoch are in the outputs: a file per epoch, a line per group of rounds.

A line is a checksum and JSON. Invariant: a line is appended, and synced, after the outputs that it names are durable.
So a start that opens the outputs at their last recorded positions finds exactly the recorded rounds in them, and counts
their notes again. The record of the whole epoch in the sink log replaces the file.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection
from concurrent.futures import Executor
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

from kigen.durable import WrittenFile, make_directories, remove, replace


@dataclass(frozen=True)
class RoundRecord:
    """What one commit of the sink added, for one lane."""

    lane: int
    last: int  # the newest round of the lane that was written
    has: int  # the newest round that all outputs of the lane have durably
    at_us: int  # when it was recorded
    positions: dict[str, Any] = field(default_factory=dict)  # output -> sink position, for those that were committed
    rounds: dict[str, int] = field(default_factory=dict)  # output -> its newest round
    notes: list[tuple[str, str]] = field(default_factory=list)  # (task, note of a step as JSON)
    out: dict[str, int] = field(default_factory=dict)  # query -> result rows
    held: dict[str, list[str]] = field(default_factory=dict)  # query -> outputs that have not committed these rows


class RoundRecords:
    """The records of one epoch."""

    def __init__(self, checkpoint: str, batch: int) -> None:
        self.batch = batch
        self._path = Path(checkpoint) / "sink" / f"{batch}.rounds"
        self._file: WrittenFile | None = None

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def read(self, logged: dict[int, int] | None) -> list[RoundRecord]:
        """Returns the whole lines. Leaves out rounds that the round log does not have: a power cut has taken them.

        `logged` has the last logged round per lane; None: leaves out nothing.
        """
        found: list[RoundRecord] = []
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return found
        for line in data.splitlines(keepends=True):
            text = line[9:-1]
            if not line.endswith(b"\n") or line[:8] != b"%08x" % zlib.crc32(text):
                break
            record = RoundRecord(**json.loads(text))
            if logged is None or record.last <= logged.get(record.lane, 0):
                found.append(record)
        return found

    def start(self, records: list[RoundRecord], sync: bool) -> None:
        """Begins the file anew with the records that hold."""
        make_directories(self._path.parent, sync)
        data = _lines(records)
        replace(self._path, data, sync)
        self._file = WrittenFile(self._path, len(data))

    def append(self, records: list[RoundRecord], sync: bool) -> None:
        assert self._file is not None, "start first"
        self._file.write(_lines(records))
        if sync:
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def drop(self, pool: Executor) -> None:
        """Removes the file: the sink log has the whole epoch. That takes a while if it is long, and nothing waits."""
        self.close()
        pool.submit(remove, self._path)


def rewrite_positions(checkpoint: str | Path, forgotten: Collection[str], sync: bool) -> None:
    """Forgets the positions of outputs that begin anew. Their rounds count as written."""
    for path in Path(checkpoint, "sink").glob("*.rounds"):
        found = RoundRecords(str(checkpoint), int(path.stem)).read(dict.fromkeys(range(1 << 10), 1 << 62))
        kept = [replaced(one, positions=_without(one.positions, forgotten)) for one in found]
        replace(path, _lines(kept), sync)


def _without(positions: dict[str, Any], forgotten: Collection[str]) -> dict[str, Any]:
    return {name: at for name, at in positions.items() if name not in forgotten}


def _lines(records: list[RoundRecord]) -> bytes:
    texts = [json.dumps(record.__dict__).encode() for record in records]
    return b"".join(b"%08x %s\n" % (zlib.crc32(text), text) for text in texts)
