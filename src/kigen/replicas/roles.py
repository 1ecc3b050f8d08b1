"""Roles of a replica, and the facts by which it takes one.

Names of roles travel between replicas, and `kigen status` shows them.
"""

from __future__ import annotations

from dataclasses import dataclass

UNDECIDED, LEADS, STANDS_BY, COPIES, DONE = "undecided", "leads", "stands by", "copies", "done"


@dataclass(frozen=True)
class ThisReplica:
    """What a replica knows of itself."""

    replica: int = 0
    role: str = UNDECIDED
    position: int = 0  # how far its files are
    up_s: float = 0.0
    asked_s: float = 0.0  # how long readers have been asking here; 0: nobody asks
    saw_other_lead: bool = False  # since this process started
    unfollowed_s: float = 0.0  # how long nobody has read here; 0: somebody reads
    both_lead_s: float = 0.0  # how long the other has led while this one led too
    other_cut_off_s: float = 0.0  # how long the leader has been cut off from upstream nodes that this one reaches


@dataclass(frozen=True)
class OtherReplica:
    """What the other replica reported last."""

    answers: bool = False
    role: str = UNDECIDED
    position: int = 0
    followed: bool = False
    cut_off: bool = False  # it cannot reach an upstream node


Decision = tuple[str, str]  # the role to take, and the reason for the log; the same role: go on
