"""Tracks whether this replica leads and which inputs it may acknowledge. Pure.

The leader of a node without memory acknowledges an input when the results of it are delivered. The ack carries the
number of results up to there: the follower, which may never get that input, numbers its own results on from it.
"""

from __future__ import annotations

from collections import deque

from kigen.replicas.roles import LEADS, STANDS_BY, OtherReplica, ThisReplica
from kigen.replicas.standby_kind import StandbyKind


class LeadTracking:
    def __init__(self, kind: StandbyKind, leads: bool) -> None:
        self._kind, self.leads = kind, leads
        self._commits = deque[tuple[int, int]]()  # end of the input that was worked off, end of the results then

    def look(self, unfollowed_s: float) -> bool:
        """Decides anew whether this replica leads; returns whether that has changed.

        `unfollowed_s`: how long nobody has read here; 0: somebody reads.
        """
        this = ThisReplica(role=LEADS if self.leads else STANDS_BY, unfollowed_s=unfollowed_s)
        before, self.leads = self.leads, self._kind.next_role(this, OtherReplica())[0] == LEADS
        return self.leads != before

    def committed(self, worked_off: int, results: int) -> None:
        """Notes that the input up to `worked_off` has given the results up to `results`."""
        self._commits.append((worked_off, results))

    def delivered(self, results: int) -> tuple[int, int] | None:
        """Returns up to where the input may be acknowledged, and the number of results of it, when readers have
        acknowledged so many results; None if there is nothing new, or if this replica does not lead."""
        acknowledged = None
        while self._commits and self._commits[0][1] <= results:
            acknowledged = self._commits.popleft()
        return acknowledged if self.leads else None
