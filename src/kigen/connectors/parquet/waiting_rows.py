"""Collects the results of an output that become durable together.

Rounds give a few rows each. Small tables are put together as they come, so that a commit does not do it for thousands
of them at once: no round is recorded while an output commits. Cost: each row is copied once.
"""

from __future__ import annotations

from itertools import groupby

import pyarrow as pa

_FEW = 64  # small tables that wait before they are put together
_SMALL_ROWS = 1 << 12


class WaitingRows:
    """Result rows in their order."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._small: list[pa.Table] = []  # the newest ones, not put together yet
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._tables or self._small)

    def add(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        self.bytes += table.nbytes
        if table.num_rows > _SMALL_ROWS:
            self._put_together()
            self._tables.append(table)
            return
        self._small.append(table)
        if len(self._small) >= _FEW:
            self._put_together()

    def take(self) -> list[pa.Table]:
        """Returns all rows, as few tables, and forgets them."""
        self._put_together()
        found, self._tables, self.bytes = self._tables, [], 0
        return found

    def _put_together(self) -> None:
        for _, tables in groupby(self._small, key=lambda table: table.schema):
            same = list(tables)
            self._tables.append(same[0] if len(same) == 1 else pa.concat_tables(same).combine_chunks())
        self._small = []
