"""Whether one of two replicas leads, and which of its inputs are done with. Pure: asked again and again, with what was
seen.

Whoever is read by a neighbour leads. A leader without memory acknowledges an input when the results of it are
delivered, with the number of results up to there: the other, which may never get that input, numbers on from it.
"""

from __future__ import annotations

from collections import deque

LEADS_ON_S = 3.0  # a leader that nobody follows: a reader may be about to ask again


class Leading:
    def __init__(self, leads: bool) -> None:
        self.leads = leads
        self._commits = deque[tuple[int, int]]()  # input worked off, results there

    def look(self, unfollowed_s: float) -> bool:
        """Whether it leads is not what it was before. `unfollowed_s`: how long nobody has read here; 0: somebody
        does."""
        before, self.leads = self.leads, unfollowed_s == 0 or (self.leads and unfollowed_s < LEADS_ON_S)
        return self.leads != before

    def committed(self, worked_off: int, results: int) -> None:
        self._commits.append((worked_off, results))

    def delivered(self, results: int) -> tuple[int, int] | None:
        """Readers have so many results: up to where the input is done with, and the results of it; None if that is no
        news, or not for this one to say."""
        done = None
        while self._commits and self._commits[0][1] <= results:
            done = self._commits.popleft()
        return done if self.leads else None
