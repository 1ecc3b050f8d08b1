"""Finds sorted numbers among sorted numbers: by arithmetic if they are consecutive (the holders of a window are), else
by search."""

from __future__ import annotations

import numpy as np

from kigen.lifetimes.blocks import Ints


def consecutive(ordered: Ints) -> bool:
    """Whether strictly ordered numbers have no gaps."""
    return len(ordered) > 0 and int(ordered[-1]) - int(ordered[0]) + 1 == len(ordered)


def strictly_ordered(values: Ints) -> bool:
    return bool((values[1:] > values[:-1]).all())


def overlap(ordered: Ints, others: Ints) -> slice:
    """Returns the part of `ordered` within the range of `others` (both ordered, neither empty)."""
    first, last = others[0], others[-1]
    if ordered[0] >= first and ordered[-1] <= last:
        return slice(0, len(ordered))
    if ordered[-1] < first or ordered[0] > last:
        return slice(0, 0)
    return slice(int(ordered.searchsorted(first, side="left")), int(ordered.searchsorted(last, side="right")))


def places(haystack: Ints, needles: Ints, without_gaps: bool) -> tuple[Ints, Ints]:
    """Returns where each needle begins in the haystack and how often it occurs. All needles lie within the haystack's
    range."""
    if without_gaps:
        return needles - haystack[0], np.ones(len(needles), dtype=np.int64)
    begin = haystack.searchsorted(needles, side="left")
    return begin, haystack.searchsorted(needles, side="right") - begin


def first_from(values: Ints, begin: Ints, stop: Ints, bound: Ints) -> Ints:
    """Returns, for each ordered run values[begin:stop], the position of the first value of at least `bound`; `stop` if
    there is none."""
    last = len(values) - 1
    while True:
        some = begin < stop
        if not bool(some.any()):
            return begin
        middle = (begin + stop) >> 1
        less = some & (values[np.minimum(middle, last)] < bound)
        begin, stop = np.where(less, middle + 1, begin), np.where(some & ~less, middle, stop)
