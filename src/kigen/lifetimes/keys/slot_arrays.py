"""Arrays by slot: they grow with the table that gives out the slots."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

_SORTED = 64  # a slot is sorted in the time in which so many are passed over
_Number = TypeVar("_Number", np.int64, np.int32)


def grown(
    array: np.ndarray[Any, np.dtype[_Number]], capacity: int, fill: int = 0
) -> np.ndarray[Any, np.dtype[_Number]]:
    """Extends an array to `capacity` with `fill`."""
    if len(array) >= capacity:
        return array
    return np.concatenate([array, np.full(capacity - len(array), fill, dtype=array.dtype)])


def different_slots(capacity: int, *slots: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns the slots that occur in any of the arrays, each once and ordered. Slots are below `capacity`. Few slots
    are sorted, so that a small step does not pass over all of them."""
    if sum(len(some) for some in slots) * _SORTED < capacity:
        return np.unique(np.concatenate(slots))
    there = np.zeros(capacity, dtype=np.bool_)
    for some in slots:
        there[some] = True
    return np.flatnonzero(there)
