"""Remembers the idempotency keys of batches, so that a sender may repeat a batch, also after a restart.

A key is stored twice. The queue holds it in the note of the batch's first row, so key and rows are durable together or
not at all. Before rows are trimmed, their keys go to a log of their own. Invariant: a key whose batch was acknowledged
is known, until `MOST_KEYS` newer ones have come. Cost: one line per key, one sync per trim that passes new keys.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import asdict, dataclass
from pathlib import Path

from kigen.durable import WrittenFile, replace

MOST_KEYS = 100_000
LONGEST_KEY = 200


@dataclass(frozen=True)
class KnownBatch:
    """A batch that was taken under a key. The names of the fields are keys of the JSON lines."""

    key: str
    digest: str  # of the bytes that the sender sent
    first: int  # offset of its first tuple
    count: int
    skipped: int


class BatchKeys:
    """The keys of one stream. Not thread-safe: the ingest queue holds a lock."""

    def __init__(self, file: Path, sync: bool) -> None:
        self._file, self._sync = file, sync
        self._known: OrderedDict[str, KnownBatch] = OrderedDict()
        self._unlogged: list[KnownBatch] = []
        self._lines = 0
        data = file.read_bytes() if file.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]  # a kill may have torn the last line, whose rows are then not trimmed
        for line in whole.splitlines():
            self._remember(KnownBatch(**json.loads(line)))
            self._lines += 1
        self._log = WrittenFile(file, keep=len(whole), mode=0o600)

    def find(self, key: str) -> KnownBatch | None:
        return self._known.get(key)

    def add(self, batch: KnownBatch) -> None:
        """Remembers a batch whose rows, with its key, are in the queue."""
        if batch.key not in self._known:
            self._remember(batch)
            self._unlogged.append(batch)

    def keep_before(self, offset: int) -> None:
        """Makes the keys of batches that begin before `offset` independent of the queue, which will trim them."""
        passed = [batch for batch in self._unlogged if batch.first < offset]
        if not passed:
            return
        if self._lines > 2 * MOST_KEYS:
            self._rewrite()
        else:
            self._log.write(b"".join(map(_line, passed)))
            if self._sync:
                self._log.sync()
            self._lines += len(passed)
        self._unlogged = [batch for batch in self._unlogged if batch.first >= offset]

    def _rewrite(self) -> None:
        lines = [_line(batch) for batch in self._known.values()]
        replace(self._file, b"".join(lines), self._sync)
        self._log.close()
        self._log = WrittenFile(self._file, keep=sum(map(len, lines)), mode=0o600)
        self._lines = len(lines)

    def _remember(self, batch: KnownBatch) -> None:
        self._known[batch.key] = batch
        while len(self._known) > MOST_KEYS:
            self._known.popitem(last=False)

    def close(self) -> None:
        self._log.close()


def _line(batch: KnownBatch) -> bytes:
    return json.dumps(asdict(batch)).encode() + b"\n"
