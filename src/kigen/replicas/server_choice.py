"""Chooses which replica a reader follows. Pure: what was seen goes in, whether to leave comes out.

The replicas of a node are servers of the same rows at the same offsets. A reader leaves the server that it follows

- when it does not answer;
- when it is cut off (it cannot reach its own upstream node, or is not at work yet) and another one is not;
- when more readers follow another server: so readers that follow different ones meet, and the other can stand by.

Invariant: a reader does not leave a server that answers, is not cut off, and has at least as many followers as any
other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class ServerStatus:
    """What a server answers when it is asked."""

    index: int
    cut_off: bool
    followers: frozenset[str]


@dataclass
class ServerChoice:
    reader: str  # as servers know it
    servers: int = 1
    index: int = 0  # of the server that is followed, or tried
    joining: bool = False  # the server is left to join other readers; it still answers

    @property
    def several(self) -> bool:
        return self.servers > 1

    def leave(self, answered: bool) -> bool:
        """Turns to the next server; returns whether the one before counts as gone.

        `answered`: it had been followed. Otherwise it was tried in vain.
        """
        joining, self.joining = self.joining, False
        self.index = (self.index + 1) % self.servers
        return self.several and answered and not joining

    @staticmethod
    def should_leave_cut_off(here: ServerStatus, others: Iterable[ServerStatus]) -> bool:
        return here.cut_off and any(not other.cut_off for other in others)

    def should_join_others(self, here: ServerStatus, others: Iterable[ServerStatus]) -> bool:
        """Whether another server has more of the readers, or as many and a lower index.

        A reader that both servers list has left one of them, and does not count.
        """
        for other in others:
            there = other.followers - {self.reader}
            count = len(there - here.followers)
            stay = len((here.followers | {self.reader}) - there)
            if not other.cut_off and count and (count, -other.index) > (stay, -here.index):
                self.joining = True
                return True
        return False
