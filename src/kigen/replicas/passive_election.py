"""Who of two replicas leads while the other only keeps copies (`standby = "passive"`): a pure decision, asked again and
again.

Both would give the same rows at the same offsets (decision 013), from whatever copy they go on: two that lead for a
while are a waste, and none that leads is a halt, but neither loses or doubles a row. So no vote is needed: each looks
at what it knows, and acts. Invariant: of two that hear each other and have just been started, exactly one leads.
"""

from __future__ import annotations

from dataclasses import dataclass

UNDECIDED, LEADS, COPIES, DONE = "undecided", "leads", "copies", "done"
GRACE_S = 15.0  # for the other to be started, too
UNREACHED_S = 5.0  # a reader asks here all the time although the other leads: it cannot reach it
UNFOLLOWED_S = 3.0  # a reader may be about to ask again
BOTH_S = 15.0


@dataclass(frozen=True)
class Other:
    """What the other replica said last. `heard`: it answers. `deaf`: it is cut off from a node before it."""

    heard: bool = False
    role: str = UNDECIDED
    position: int = 0
    followed: bool = False
    deaf: bool = False


@dataclass(frozen=True)
class Me:
    """`asked_s`: how long readers have been asking here (0: nobody does); `saw_it_lead`: since this one was started."""

    replica: int
    role: str = UNDECIDED
    position: int = 0  # how far its files are
    up_s: float = 0.0
    asked_s: float = 0.0
    saw_it_lead: bool = False
    unfollowed_s: float = 0.0  # leading, how long nobody has read here (0: somebody does)
    both_s: float = 0.0  # and how long the other has led, too
    hears_s: float = (
        0.0  # how long it has heard the nodes before while the other, who leads, did not (0: it does not, or both do)
    )


def next_role(me: Me, other: Other) -> tuple[str, str]:
    """The role to take, and why, for the log. The same role: go on."""
    if me.role == LEADS:
        return _leading(me, other)
    if other.heard and other.role == DONE:
        return DONE, "the other has delivered everything"
    return _undecided(me, other) if me.role == UNDECIDED else _copying(me, other)


def further(me: Me, other: Other) -> bool:
    return (me.position, -me.replica) > (other.position, me.replica - 1)


def _undecided(me: Me, other: Other) -> tuple[str, str]:
    if not other.heard:
        if me.asked_s > 0 and me.up_s >= GRACE_S:
            return LEADS, f"readers ask, and the other has not answered for {GRACE_S:g} s"
        return UNDECIDED, ""
    if other.role == LEADS:
        return COPIES, "the other leads"
    if further(me, other):
        return (
            LEADS,
            "its files are further"
            if me.position > other.position
            else "neither's files are further, and it is the first",
        )
    return (
        COPIES,
        "the other's files are further"
        if me.position < other.position
        else "neither's files are further, and it is the second",
    )


def _copying(me: Me, other: Other) -> tuple[str, str]:
    if other.heard and other.role == LEADS and me.hears_s >= UNREACHED_S:
        return LEADS, "the other is cut off from the node before, and this one is not"
    if not me.asked_s:
        return COPIES, ""
    if not other.heard:
        if me.saw_it_lead or me.up_s >= GRACE_S:
            return LEADS, "the other does not answer, and readers ask here"
        return COPIES, ""
    if other.role == LEADS:
        if me.asked_s >= UNREACHED_S and not other.followed:
            return LEADS, "nobody reads from the other, and readers ask here"
        return COPIES, ""
    if me.saw_it_lead or further(me, other):
        return LEADS, "the other does not lead any more, and readers ask here"
    return COPIES, ""


def _leading(me: Me, other: Other) -> tuple[str, str]:
    if (
        me.hears_s > 0
    ):  # the other is read by somebody who does not know yet, or cannot reach this one: it has nothing new to give
        return LEADS, ""
    if other.heard and other.role == LEADS and other.followed:
        if me.unfollowed_s >= UNFOLLOWED_S:
            return COPIES, "the other leads, and nobody reads here"
        if me.both_s >= BOTH_S and me.replica == 1:
            return COPIES, "both lead, and the first is to go on"
    return LEADS, ""
