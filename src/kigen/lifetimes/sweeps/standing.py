"""Chooses which rows can matter in a step, among the *standing* ones: those that are alive throughout it.

A step has few events and its groups may have many rows. The least row of a group is the least standing one or one that
comes or goes in the step, so all other standing rows may be left out before anything is sorted. The same holds for the
rows around a quantile. Cost: a few passes over the rows of the groups touched, without sorting
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kigen.lifetimes.blocks import Ints, Mask

MANY = 1024  # standing rows of a group: fewer are sorted faster than they are chosen among
_ROOTS, _SPARE = 4.0, 32.0  # width of a likely band: times the root of the moving rows, and more
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def least_standing(stands: Mask, group: Ints, value: Ints) -> Mask:
    """Returns the rows that may have the least value of their group at some instant: all that do not stand, and the
    least ones (several, if they are equal) of those that do."""
    places = np.flatnonzero(stands)
    if len(places) < MANY:
        return np.ones(len(stands), dtype=np.bool_)
    groups, values = group[places], value[places]
    least = np.full(int(groups.max()) + 1, _GREATEST)
    np.minimum.at(least, groups, values)
    keep = ~stands
    keep[places] = values == least[groups]
    return keep


@dataclass
class Bands:
    """For each group the values between which its quantile lies throughout the step; all values if it is not known."""

    low: Ints
    high: Ints

    @staticmethod
    def wide(groups: int) -> Bands:
        return Bands(np.full(groups, _LEAST), np.full(groups, _GREATEST))

    @staticmethod
    def likely(group: Ints, value: Ints, moving: Ints, fraction: float) -> Bands:
        """Chooses narrow bands, which must be checked: values that come and go at random move the place of a quantile
        by about the root of their number. `moving` is that number, by group."""
        bands = Bands.wide(len(moving))
        for number, places in _large_groups(np.ones(len(group), dtype=np.bool_), group):
            place, margin = fraction * (len(places) - 1), _ROOTS * float(moving[number]) ** 0.5 + _SPARE
            bands._choose(number, value[places], int(place - margin), int(place + margin))
        return bands

    @staticmethod
    def certain(stands: Mask, group: Ints, value: Ints, moving: Ints, fraction: float) -> Bands:
        """Chooses bands that need no check. With s standing rows and m others, between s and s + m are alive. So the
        quantile's place is known up to m, and the standing row at that place up to another m."""
        bands = Bands.wide(len(moving))
        for number, places in _large_groups(stands, group):
            first = int(fraction * (len(places) - 1)) - int(moving[number]) - 2
            last = int(fraction * (len(places) + int(moving[number]) - 1)) + 2
            bands._choose(number, value[places], first, last)
        return bands

    def _choose(self, group: int, values: Ints, first: int, last: int) -> None:
        """Sets a band to the values from place `first` to `last` of a group."""
        places = [place for place in (first, last) if 0 < place < len(values) - 1]
        ordered = np.partition(values, places) if places else values
        if first in places:
            self.low[group] = ordered[first]
        if last in places:
            self.high[group] = ordered[last]


def _large_groups(stands: Mask, group: Ints) -> Iterator[tuple[int, Ints]]:
    """Yields the groups with many standing rows, each with the places of these rows."""
    places = np.flatnonzero(stands)
    if len(places) < MANY:
        return
    groups = group[places]
    sizes = np.bincount(groups)
    large = np.flatnonzero(sizes >= MANY)
    if not len(large):
        return
    if sizes[large[0]] == len(places):
        yield int(large[0]), places
        return
    among = (sizes >= MANY)[groups]
    places, groups = places[among], groups[among]
    order = np.argsort(groups.astype(np.uint16) if len(sizes) < 1 << 16 else groups, kind="stable")
    for number, part in zip(large, np.split(places[order], np.cumsum(sizes[large])[:-1]), strict=True):
        yield int(number), part
