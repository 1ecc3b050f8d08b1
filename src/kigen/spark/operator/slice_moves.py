"""Translates the batch's instructions for the slices after the first: how far each advances, and what it reports.

A slice after the first reads nothing. Its ranges say which tuples it has processed now. The counts and latencies of its
queries follow from these tuples. Invariant: everything follows from the batch, so a replay does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kigen.connectors.source_base import Times
from kigen.lifetimes.blocks import BEFORE_TIME
from kigen.lifetimes.joins.sliced_runtime import Move
from kigen.spark.operator.arrival_times import slotted
from kigen.spark.operator.range_reader import RangeReader

Slice = dict[str, Any]  # as in the offset: ranges, shed, dropped, absent, until_us


def moves_of(slices: Sequence[Slice], tuples: Iterable[int] | None = None) -> list[Move]:
    """Returns how far each slice advances. `tuples` is how many tuples each has processed."""
    counts = [0] * len(slices) if tuples is None else list(tuples)
    return [
        Move(
            BEFORE_TIME if mine["until_us"] is None else mine["until_us"],
            count,
            {stream: tuple(bounds) for stream, bounds in mine["absent"].items()},
        )
        for mine, count in zip(slices, counts, strict=True)
    ]


class LaterSlices:
    """The slices after the first of one task in one step."""

    def __init__(self, slices: list[Slice], reading: RangeReader) -> None:
        self._slices = slices
        self._times: list[list[Times]] = [[_times(reading, piece) for piece in mine["ranges"]] for mine in slices]

    @property
    def moves(self) -> list[Move]:
        return moves_of(self._slices, (sum(map(len, times)) for times in self._times))

    @property
    def reference(self) -> list[Slice]:
        """Returns what a replay needs."""
        return [{"until_us": mine["until_us"], "absent": mine["absent"]} for mine in self._slices]

    def note(self, queries: Sequence[Sequence[str]]) -> dict[str, dict[str, Any]]:
        """Returns, per query of each slice, the arrivals of the tuples it has processed and how many it lost."""
        found: dict[str, dict[str, Any]] = {}
        for mine, times, names in zip(self._slices, self._times, queries, strict=True):
            about = {
                "arrivals": [slot for part in times for slot in slotted(part)],
                "dropped": sum(mine["dropped"].values()),
            }
            found |= dict.fromkeys(names, about)
        return found


def _times(reading: RangeReader, piece: dict[str, Any]) -> Times:
    return reading.arrivals_us(piece["stream"], int(piece["start"]["index"]), int(piece["end"]["index"]))
