"""Finds what a relation gains and loses at each instant: births and deaths of equal rows at one instant cancel.

Invariant: the answer for an instant depends only on the relation just before and at that instant, never on how the
input was cut into steps. Cost: one sort of the step's events, and one comparison per row that meets an equal one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kigen.lifetimes.blocks import Ints, no_ints, take_columns
from kigen.lifetimes.keys.row_keys import equal_rows, row_values
from kigen.lifetimes.sweeps.lifecycle import Events
from kigen.lifetimes.sweeps.sweep import dense, group_runs


def net_changes(events: Events) -> tuple[Ints, Ints, Ints]:
    """Returns, per row value and instant, one event, the instant, and the births less the deaths."""
    if not len(events):
        return no_ints(), no_ints(), no_ints()
    runs = group_runs(_dense(events), events.time)
    return runs.sample(), runs.time, runs.total(events.sign)


def _dense(events: Events) -> Ints:
    """Gives equal rows equal small numbers, and different rows different ones. Comparing the columns confirms the
    keys."""
    ordinal = dense(events.slot)
    example = np.empty(int(ordinal.max()) + 1, dtype=np.int64)
    example[ordinal] = np.arange(len(ordinal))
    if len(example) < len(ordinal):
        theirs = take_columns(events.columns, example[ordinal])
        odd = np.flatnonzero(~equal_rows(events.columns.columns, theirs.columns, len(ordinal)))
        numbers: dict[tuple[Any, ...], int] = {}
        for row in odd.tolist():
            ordinal[row] = numbers.setdefault(row_values(events.columns.slice(row, 1)), len(example) + len(numbers))
    return ordinal
