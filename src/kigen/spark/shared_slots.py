"""Counts the lanes of all runs of this process on one Spark: together they may hold all slots.

Each run leaves a slot free for itself only. Invariant: while the lanes of several runs hold all slots, each run knows
it by its scratch directory and ends its epochs also if it is idle, since lanes of another run may wait for a slot.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from kigen.spark.scratch import Scratch

_LANES: dict[str, dict[Scratch, int]] = {}  # application of Spark -> lanes of each run
_LOCK = threading.Lock()


def take_slots(application: str, slots: int, scratch: Scratch, lanes: int) -> None:
    """Notes that a run begins with so many lanes."""
    with _LOCK:
        _LANES.setdefault(application, {})[scratch] = lanes
        _report(application, slots)


def give_slots(application: str, slots: int, scratch: Scratch) -> None:
    """Notes that a run holds no slots any more."""
    with _LOCK:
        runs = _LANES.get(application, {})
        if runs.pop(scratch, None) is None:
            return
        scratch.set_slots_wanted(False)
        _report(application, slots)
        if not runs:
            del _LANES[application]


def _report(application: str, slots: int) -> None:
    runs = _LANES[application]
    wanted = len(runs) > 1 and sum(runs.values()) >= slots
    for scratch in runs:
        with suppress(FileNotFoundError):  # the run has just ended
            scratch.set_slots_wanted(wanted)
