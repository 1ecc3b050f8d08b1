"""Compares the software of the two replicas of a node, before the one that starts later takes part.

Both must give the same rows in the same order. Another version of Kigen, or of DuckDB, which evaluates expressions,
need not do so. Invariant: a replica that finds the other at work with other software ends with an error; the one that
was there first works on.
"""

from __future__ import annotations

from contextlib import suppress

from kigen.links import Link, LinkDown, Patience, Security
from kigen.links.flight.software import software
from kigen.queue import QueueError


class OtherSoftware(QueueError):
    """The other replica runs another version of Kigen or DuckDB: exit code 1."""


def require_same_software_there(other: str, security: Security, call_s: float = 2.0) -> None:
    """Asks the other replica, if it answers, what it runs. Raises OtherSoftware if this replica runs something else."""
    with Link(other, security, Patience(patience_s=0.0, call_s=call_s)) as link, suppress(LinkDown):
        link.connection.attempt(lambda client: client)
        require_same(other, link.connection.software)


def require_same(other: str, theirs: object) -> None:
    mine = software()
    if theirs == mine:
        return
    found = (
        ", ".join(f"{name} {version}" for name, version in theirs.items())
        if isinstance(theirs, dict) and theirs
        else "an older Kigen"
    )
    own = ", ".join(f"{name} {version}" for name, version in mine.items())
    raise OtherSoftware(
        f"the other replica, at {other}, runs {found}; this one runs {own}: their results could differ. "
        "Install the same versions on both machines, and start this one again",
        {"other": other, "mine": mine},
    )
