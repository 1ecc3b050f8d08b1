"""What the slices after the first do in a step, as the batch says it: where the kernel has to go, and what that means
for their queries.

A slice after the first reads nothing: its ranges say which tuples it has run on now, so that its queries' counts and
latencies are of those. Invariant: all of it follows from the batch, so that a replay is the same.
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
    counts = [0] * len(slices) if tuples is None else list(tuples)
    return [
        Move(
            BEFORE_TIME if mine["until_us"] is None else mine["until_us"],
            count,
            {stream: (first, last) for stream, (first, last) in mine["absent"].items()},
        )
        for mine, count in zip(slices, counts, strict=True)
    ]


class LaterSlices:
    def __init__(self, slices: list[Slice], reading: RangeReader) -> None:
        self._slices = slices
        self._times: list[list[Times]] = [[_times(reading, piece) for piece in mine["ranges"]] for mine in slices]

    @property
    def moves(self) -> list[Move]:
        return moves_of(self._slices, (sum(map(len, times)) for times in self._times))

    @property
    def reference(self) -> list[Slice]:
        """What a replay needs."""
        return [{"until_us": mine["until_us"], "absent": mine["absent"]} for mine in self._slices]

    def note(self, queries: Sequence[Sequence[str]]) -> dict[str, dict[str, Any]]:
        """Of the queries of each slice: when the tuples came that it ran on, and how many it lost."""
        found: dict[str, dict[str, Any]] = {}
        for mine, times, names in zip(self._slices, self._times, queries, strict=True):
            told = {
                "arrivals": [slot for part in times for slot in slotted(part)],
                "dropped": sum(mine["dropped"].values()),
            }
            found |= dict.fromkeys(names, told)
        return found


def _times(reading: RangeReader, piece: dict[str, Any]) -> Times:
    return reading.arrivals_us(piece["stream"], int(piece["start"]["index"]), int(piece["end"]["index"]))
