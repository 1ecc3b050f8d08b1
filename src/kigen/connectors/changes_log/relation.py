"""The relation that changes add up to: a bag of rows, each as its JSON text.

A line of changes is `{"_op":"insert","_at":"...",` and the row. Invariant: after all lines up to an event are applied,
the bag is the relation at that instant; equal rows are counted. Cost: one dictionary entry per distinct row.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator


class Relation:
    """A bag of rows. Not thread-safe: the log holds a lock."""

    def __init__(self) -> None:
        self._rows: Counter[bytes] = Counter()
        self.changed_at: str | None = None  # time of the last change

    def apply(self, lines: Iterable[bytes]) -> None:
        last: bytes | None = None
        for line in lines:
            op, at, row = line.split(b",", 2)
            if op.endswith(b'insert"'):
                self._rows[row] += 1
            elif self._rows[row] > 1:
                self._rows[row] -= 1
            else:
                del self._rows[row]
            last = at
        if last is not None:
            self.changed_at = json.loads(b"{" + last + b"}")["_at"]

    def __len__(self) -> int:
        return sum(self._rows.values())

    def objects(self) -> Iterator[bytes]:
        """Yields the JSON object of each row."""
        for row, count in self._rows.items():
            for _ in range(count):
                yield b"{" + row

    def to_bytes(self) -> bytes:
        head = json.dumps({"changed_at": self.changed_at}).encode()
        return b"".join(line + b"\n" for line in (head, *(b"%d,%s" % (n, row) for row, n in self._rows.items())))

    @staticmethod
    def from_bytes(data: bytes) -> Relation:
        made = Relation()
        head, *rows = data.splitlines()
        made.changed_at = json.loads(head)["changed_at"]
        for entry in rows:
            count, row = entry.split(b",", 1)
            made._rows[row] = int(count)
        return made
