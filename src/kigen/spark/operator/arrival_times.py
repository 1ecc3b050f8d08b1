"""When the tuples behind a step's results arrived: rows for another node carry it, so that latencies are from end to
end.

A result at instant t was caused by the newest input with a timestamp up to t; one that time alone caused (a death ahead
of all inputs) counts as arriving as much later as its instant lies behind the last input. Where the step had no input,
it is when the batch was admitted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors import Range, Rows
from kigen.connectors.source_base import Times

_SLOT_US, _LONG_SLOT_US, _LONG_US = 1_000, 10_000, 10_000_000


def slotted(times: Times) -> list[tuple[int, int]]:
    """(arrival, tuples), in slots."""
    if not len(times):
        return []
    slot = _LONG_SLOT_US if times.max() - times.min() > _LONG_US else _SLOT_US
    slots, counts = np.unique(times // slot, return_counts=True)
    return list(zip((slots * slot).tolist(), counts.tolist(), strict=True))


class ArrivalStamper:
    def __init__(self, read: list[tuple[Range, Rows]], admitted_us: int) -> None:
        self._admitted_us = admitted_us
        parts = [(_instants(rows.table), _arrivals(rows, admitted_us)) for _, rows in read if rows.table.num_rows]
        self._instants = np.concatenate([at for at, _ in parts]) if parts else np.zeros(0, np.int64)
        if parts:
            order = np.argsort(self._instants, kind="stable")
            self._instants = self._instants[order]
            self._arrivals = np.maximum.accumulate(np.concatenate([arrived for _, arrived in parts])[order])

    def stamped(self, rows: pa.Table) -> pa.Table:
        """Rows for a queue, with `_arrived` where they have none (marks have their own value there)."""
        at = _instants(rows)
        if not len(self._instants):
            arrived = np.full(len(at), self._admitted_us)
        else:
            place = np.searchsorted(self._instants, at, side="right") - 1
            arrived = self._arrivals[np.maximum(place, 0)]
            behind = at - self._instants[-1]
            arrived = np.where(
                behind > 0, np.minimum(arrived + behind, max(self._admitted_us, int(self._arrivals[-1]))), arrived
            )
        name = "_arrived"
        filled = pc.coalesce(rows.column(name), pa.chunked_array([pa.array(arrived, pa.int64())]))
        return rows.set_column(rows.column_names.index(name), name, filled)


def _instants(table: pa.Table) -> Times:
    """Of a tuple its time, of a tuple with a lifetime its birth, of a fill the death; a mark counts as nothing's."""
    names = table.column_names
    if "_from" in names:
        at = pc.coalesce(table.column("_from"), table.column("_to"), 0)
    else:
        at = pc.coalesce(table.column("_ts" if "_ts" in names else "_at"), 0)
    return np.asarray(at.to_numpy(), np.int64)


def _arrivals(rows: Rows, admitted_us: int) -> Times:
    return np.full(rows.table.num_rows, admitted_us) if rows.arrivals_us is None else rows.arrivals_us
