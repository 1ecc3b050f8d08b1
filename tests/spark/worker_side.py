"""Stand-ins for Spark in tests: the state of a group, and a decision that goes through JSON like Spark's offsets."""

from __future__ import annotations

import copy
import json
from typing import Any

from kigen.spark.admission.offsets import Offset, next_offset
from kigen.spark.admission.scheduling import Scheduling
from kigen.spark.scratch import Committed


class State:
    """The part of Spark's GroupState that the operator uses."""

    value: tuple[Any, ...] | None = None

    @property
    def exists(self) -> bool:
        return self.value is not None

    @property
    def get(self) -> tuple[Any, ...]:
        assert self.value is not None
        return self.value

    def update(self, value: tuple[Any, ...]) -> None:
        self.value = value


def decided(scheduling: Scheduling, offset: Offset, now_us: int, committed: Committed, closing: bool) -> Offset:
    """Returns the offset after `offset`."""
    queues = copy.deepcopy(offset.queues)
    scheduling.completed(offset.seq, now_us, committed)
    taken = scheduling.next(offset.seq + 1, now_us, queues, committed, closing)
    after = next_offset(offset, {}, 0, now_us, (queues, taken), closing)
    again = Offset.from_json(json.loads(json.dumps(after.to_json())))
    assert again == after, "Spark compares the two"
    return again
