"""Decides which of two replicas leads while the other only keeps copies (`standby = "passive"`). Pure.

Both replicas give the same rows at the same offsets (decision 013), whichever copy they start from. Two leaders waste
work and no leader halts the node, but neither case loses or doubles a row. So no vote is needed: each replica looks at
what it knows, and acts. Invariant: of two replicas that hear each other and have just been started, exactly one leads.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kigen.replicas.roles import COPIES, DONE, LEADS, UNDECIDED, Decision, OtherReplica, ThisReplica

GRACE_S = 15.0  # for the other replica to be started too
UNREACHED_S = 5.0  # readers ask here for so long although the other leads: they cannot reach it
UNFOLLOWED_S = 3.0  # a reader may be about to ask again
BOTH_S = 15.0  # two leaders: then the second steps down


def next_role(this: ThisReplica, other: OtherReplica) -> Decision:
    if this.role == LEADS:
        return _leading(this, other)
    if other.answers and other.role == DONE:
        return DONE, "the other has delivered everything"
    return _undecided(this, other) if this.role == UNDECIDED else _copying(this, other)


def further(this: ThisReplica, other: OtherReplica) -> bool:
    """Whether this replica's files are further; of equal ones, the first replica's are."""
    return (this.position, -this.replica) > (other.position, this.replica - 1)


def _undecided(this: ThisReplica, other: OtherReplica) -> Decision:
    if not other.answers:
        if this.asked_s > 0 and this.up_s >= GRACE_S:
            return LEADS, f"readers ask, and the other has not answered for {GRACE_S:g} s"
        return UNDECIDED, ""
    if other.role == LEADS:
        return COPIES, "the other leads"
    equal = this.position == other.position
    if further(this, other):
        return LEADS, "neither's files are further, and it is the first" if equal else "its files are further"
    return COPIES, "neither's files are further, and it is the second" if equal else "the other's files are further"


def _copying(this: ThisReplica, other: OtherReplica) -> Decision:
    if other.answers and other.role == LEADS and this.other_cut_off_s >= UNREACHED_S:
        return LEADS, "the other is cut off from the node before, and this one is not"
    if not this.asked_s:
        return COPIES, ""
    if not other.answers:
        if this.saw_other_lead or this.up_s >= GRACE_S:
            return LEADS, "the other does not answer, and readers ask here"
        return COPIES, ""
    if other.role == LEADS:
        if this.asked_s >= UNREACHED_S and not other.followed:
            return LEADS, "nobody reads from the other, and readers ask here"
        return COPIES, ""
    if this.saw_other_lead or further(this, other):
        return LEADS, "the other does not lead any more, and readers ask here"
    return COPIES, ""


def _leading(this: ThisReplica, other: OtherReplica) -> Decision:
    if this.other_cut_off_s > 0:
        # whoever reads the other does not know yet, or cannot reach this one; the other has nothing new to give
        return LEADS, ""
    if other.answers and other.role == LEADS and other.followed:
        if this.unfollowed_s >= UNFOLLOWED_S:
            return COPIES, "the other leads, and nobody reads here"
        if this.both_lead_s >= BOTH_S and this.replica == 1:
            return COPIES, "both lead, and the first is to go on"
    return LEADS, ""


@dataclass
class PassiveElection:
    """Turns what a replica observes into the durations that `next_role` needs. The time comes with every call."""

    replica: int
    silence_s: float
    role: str = UNDECIDED
    up_at_s: float = 0.0
    _asked_since_s: float | None = field(default=None, init=False)
    _both_since_s: float | None = field(default=None, init=False)

    def observe(
        self,
        now_s: float,
        other: OtherReplica,
        *,
        asked_at_s: float | None,
        position: int,
        saw_other_lead: bool,
        unfollowed_s: float,
        other_cut_off_s: float,
    ) -> ThisReplica:
        """`asked_at_s`: when a reader asked here last; readers that stop asking for a while do not count any more."""
        if asked_at_s is None or now_s - asked_at_s > 1 + 2 * self.silence_s:
            self._asked_since_s = None
        elif self._asked_since_s is None:
            self._asked_since_s = min(asked_at_s, now_s - 1e-3)
        both_lead = self.role == LEADS and other.answers and other.role == LEADS
        self._both_since_s = (self._both_since_s or now_s) if both_lead else None
        return ThisReplica(
            self.replica,
            self.role,
            position,
            now_s - self.up_at_s,
            0.0 if self._asked_since_s is None else now_s - self._asked_since_s,
            saw_other_lead,
            unfollowed_s,
            0.0 if self._both_since_s is None else now_s - self._both_since_s,
            other_cut_off_s,
        )
