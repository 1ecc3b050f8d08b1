"""Tracks which rounds of the running epoch each output has: what must be written, and what a replay may leave out.

Invariant: `has` of a lane is the newest round such that no output of the lane lacks a row of it or of an earlier one.
Outputs that commit rarely (at intervals, or at the end of an epoch) hold it back only while they have rows waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kigen.spark.sink.round_records import RoundRecord


@dataclass
class LaneProgress:
    """Rounds of one lane."""

    written: int = 0  # newest round that was given to the outputs
    counted: int = 0  # newest round whose notes are in the metrics
    waiting: dict[str, int] = field(default_factory=dict)  # output -> its first round that is not durable yet

    @property
    def has(self) -> int:
        return min((first - 1 for first in self.waiting.values()), default=self.written)


class EpochProgress:
    """Rounds of all lanes in one epoch."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.lanes: dict[int, LaneProgress] = {}
        self._durable: dict[str, int] = {}  # output -> newest round, as an earlier process recorded it
        self._lane_of: dict[str, int] = {}

    def lane(self, lane: int) -> LaneProgress:
        return self.lanes.setdefault(lane, LaneProgress())

    def restore(self, record: RoundRecord) -> None:
        """Takes over what an earlier process recorded. The lane's rounds after `has` come again."""
        lane = self.lane(record.lane)
        lane.written, lane.counted = record.has, max(lane.counted, record.last)
        self._durable |= record.rounds

    def is_new(self, lane: int, number: int) -> bool:
        return number > self.lane(lane).written

    def lacks(self, number: int, output: str) -> bool:
        """Whether an output lacks a round that is being written."""
        return number > self._durable.get(output, 0)

    def wrote(self, lane: int, number: int, output: str) -> None:
        """Notes that an output got rows of a round."""
        self._lane_of[output] = lane
        self.lane(lane).waiting.setdefault(output, number)

    def committed(self, outputs: list[str]) -> dict[int, dict[str, int]]:
        """Notes that outputs are durable, and returns their rounds by lane."""
        found: dict[int, dict[str, int]] = {}
        for output in outputs:
            if output in self._lane_of:
                lane = self._lane_of[output]
                self.lane(lane).waiting.pop(output, None)
                found.setdefault(lane, {})[output] = self.lane(lane).written
        return found

    @property
    def waiting(self) -> set[str]:
        """Returns the outputs with rows that are not durable yet."""
        return {output for lane in self.lanes.values() for output in lane.waiting}
