"""The input side of a replica: what has come of each stream, and what the operator was given.

Invariant: fed <= received. After a new beginning at a mark, every stream is fed silently up to `base.through` before
any is fed beyond it: only there is the operator's state that of the undisturbed run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kigen_lab.simulate.standby.machine.cuts import START, Cut, Mark
from kigen_lab.simulate.standby.machine.events import Feed


@dataclass
class Input:
    received: int = 0
    fed: int = 0
    accepted: bool = True  # the upstream node knows that this replica is the primary
    asked: int = -1  # a Resume for this offset is under way


class Inputs:
    def __init__(self, names: Iterable[str]) -> None:
        self.streams = {name: Input() for name in names}
        self.generation = 0
        self.base: Mark = START

    @property
    def received(self) -> Cut:
        return Cut.of({name: one.received for name, one in self.streams.items()})

    @property
    def fed(self) -> Cut:
        return Cut.of({name: one.fed for name, one in self.streams.items()})

    def begin(self, mark: Mark) -> None:
        """A new operator, to be fed from `mark.needed` on."""
        self.generation += 1
        self.base = mark
        for name, one in self.streams.items():
            one.received = one.fed = mark.needed[name]
            one.asked = -1

    def feeds(self) -> list[Feed]:
        """What may be given to the operator now."""
        found = []
        for name, one in self.streams.items():
            end = min(one.received, self.base.through[name])
            if one.fed < end:
                found.append(Feed(self.generation, name, one.fed, end, silent=True))
                one.fed = end
        if all(one.fed >= self.base.through[name] for name, one in self.streams.items()):
            for name, one in self.streams.items():
                if one.fed < one.received:
                    found.append(Feed(self.generation, name, one.fed, one.received))
                    one.fed = one.received
        return found

    def clone(self) -> Inputs:
        other = Inputs(())
        other.streams = {name: replace(one) for name, one in self.streams.items()}
        other.generation, other.base = self.generation, self.base
        return other

    def key(self) -> tuple[object, ...]:
        return (self.base, tuple((one.received, one.fed, one.accepted, one.asked) for one in self.streams.values()))
