"""Which of the servers of the same rows a reader follows. Pure: what was seen goes in, whether to leave comes out.

One is left when it does not answer; when nothing can come of it (`deaf`: it is cut off from what it reads itself, or
not at work yet) and something can of another; and when more readers follow another, so that readers who have come to
follow different ones meet, and the other can stand by. Invariant: one that answers, is not deaf, and is followed by no
fewer than another is not left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Seen:
    """What a server says when it is asked. `followed`: by whom."""

    at: int
    deaf: bool
    followed: frozenset[str]


@dataclass
class Whom:
    me: str  # as servers know it
    servers: int = 1
    at: int = 0  # the one that is followed, or tried
    joining: bool = False  # it is left for where others are; it is there itself

    @property
    def several(self) -> bool:
        return self.servers > 1

    def left(self, heard: bool) -> bool:
        """The one that was followed (`heard`), or tried in vain, is left for the next; whether it counts as gone."""
        joining, self.joining = self.joining, False
        self.at = (self.at + 1) % self.servers
        return self.several and heard and not joining

    @staticmethod
    def cut_off(here: Seen, others: Iterable[Seen]) -> bool:
        return here.deaf and any(not other.deaf for other in others)

    def elsewhere(self, here: Seen, others: Iterable[Seen]) -> bool:
        """More of the readers than here; or as many, and the first is to have them all. Who is seen at both has left
        one, and does not count."""
        for other in others:
            there = other.followed - {self.me}
            count = len(there - here.followed)
            if not other.deaf and count and (count, -other.at) > (len((here.followed | {self.me}) - there), -here.at):
                self.joining = True
                return True
        return False
