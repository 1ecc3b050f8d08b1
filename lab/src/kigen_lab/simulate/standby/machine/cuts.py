"""Positions: a `Cut` names one offset in each of several streams, a `Mark` says where a node can begin anew.

Offsets count tuples of a stream from 0; a position is the offset of the next tuple. Invariant of marks: feed an empty
operator the inputs from `needed` up to `through` and throw its results away; from there on it makes the results that
the undisturbed run made, numbered from `outputs`. That is what lifetimes give: an input that is dead in every window by
`through` need not be fed. Everything numbered below `outputs` is released downstream: nobody will ask for it again.

All marks of a node lie on one line (a new primary gives none that is not behind the newest it was told), so the newest
is the one to use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Cut:
    """An offset a stream, in the order of names; a stream that is not named stands at 0."""

    items: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, offsets: Mapping[str, int]) -> Cut:
        if len(offsets) == 1:  # by far the most
            ((stream, offset),) = offsets.items()
            return cls(((stream, offset),)) if offset else NOWHERE
        return cls(tuple(sorted((stream, offset) for stream, offset in offsets.items() if offset)))

    def __getitem__(self, stream: str) -> int:
        for name, offset in self.items:
            if name == stream:
                return offset
        return 0

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self.items)

    def reaches(self, other: Cut) -> bool:
        """In no stream is this position before the other."""
        if self.items == other.items:
            return True
        return all(self[stream] >= offset for stream, offset in other.items)


NOWHERE = Cut()


@dataclass(frozen=True)
class Mark:
    """A restart point of one node: what a Level-1 ack says."""

    outputs: Cut = Cut()
    through: Cut = Cut()
    needed: Cut = Cut()
    copied: bool = False  # the inputs alone do not give the state back: a copy of it, taken at `through`, is needed too
    line: int = 1  # gap recovery: the epoch whose numbers these are; after a loss the results are numbered anew
    rests_on: tuple[tuple[str, Mark], ...] = ()  # the marks of the readers for whose sake `outputs` are released

    def not_before(self, other: Mark) -> bool:
        return self.through.reaches(other.through)


START = Mark()
