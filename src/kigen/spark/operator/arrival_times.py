"""Computes when the tuples behind a step's results arrived. Rows for another node carry it, for latencies end to end.

A result at instant t was caused by the newest input with a timestamp up to t. A result that only time caused (a death
after all inputs) counts as arriving later than the last input, by the distance between the two instants. If the step
had no input, its results arrived when the batch was admitted.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors import Range, Rows
from kigen.connectors.source_base import Times

_SLOT_US, _LONG_SLOT_US, _LONG_US = 1_000, 10_000, 10_000_000
_FEW = 128  # tuples: below it, Python is quicker than numpy


def slotted(times: Times) -> list[tuple[int, int]]:
    """Groups arrival times into slots and returns (arrival, tuples) pairs."""
    if not len(times):
        return []
    if len(times) <= _FEW:
        given = times.tolist()
        slot = _LONG_SLOT_US if max(given) - min(given) > _LONG_US else _SLOT_US
        counted = Counter([at // slot for at in given])
        return [(at * slot, counted[at]) for at in sorted(counted)]
    slot = _LONG_SLOT_US if times.max() - times.min() > _LONG_US else _SLOT_US
    slots, counts = np.unique(times // slot, return_counts=True)
    return list(zip((slots * slot).tolist(), counts.tolist(), strict=True))


class ArrivalStamper:
    """Adds arrival times to the results of one step."""

    def __init__(self, read: list[tuple[Range, Rows]], admitted_us: int) -> None:
        self._admitted_us = admitted_us
        parts = [(_instants(rows.table), _arrivals(rows, admitted_us)) for _, rows in read if rows.table.num_rows]
        self._instants = np.concatenate([at for at, _ in parts]) if parts else np.zeros(0, np.int64)
        if parts:
            order = np.argsort(self._instants, kind="stable")
            self._instants = self._instants[order]
            self._arrivals = np.maximum.accumulate(np.concatenate([arrived for _, arrived in parts])[order])

    def stamped(self, rows: pa.Table) -> pa.Table:
        """Fills `_arrived` of rows for a queue. Watermark rows already have a value there."""
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
    """Returns the instant of each row: its time or birth, or the death for a fill. Watermark rows count as 0."""
    names = table.column_names
    if "_from" in names:
        at = pc.coalesce(table.column("_from"), table.column("_to"), 0)
    else:
        at = pc.coalesce(table.column("_ts" if "_ts" in names else "_at"), 0)
    return np.asarray(at.to_numpy(), np.int64)


def _arrivals(rows: Rows, admitted_us: int) -> Times:
    return np.full(rows.table.num_rows, admitted_us) if rows.arrivals_us is None else rows.arrivals_us
