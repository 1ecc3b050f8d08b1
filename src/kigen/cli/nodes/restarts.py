"""Decides when a node that died is started again (after 1, 2, 4 ... 60 seconds), and when to give it up.

Invariant: a node that has worked is never given up, however often it dies. A node that did not get to work in several
starts in a row is given up: the next start would not help either. Pure: the caller passes the time.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_S, LONGEST_S = 1.0, 60.0
LIVED_S = 60.0  # after working for so long, the next death counts as the first
NEVER_WORKED = 5  # starts in a row after which a node is given up


@dataclass
class _Node:
    deaths: int = 0  # since it last worked for LIVED_S
    never_worked: int = 0  # starts in a row that did not get to work
    worked_since: float | None = None  # since the latest start


class Restarts:
    """Counts starts and deaths of each node."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}

    def works(self, name: str, now: float) -> None:
        node = self._nodes.setdefault(name, _Node())
        node.worked_since = now if node.worked_since is None else node.worked_since

    def died(self, name: str, now: float) -> float | None:
        """Returns how many seconds to wait before the next start, or None if the node is given up."""
        node = self._nodes.setdefault(name, _Node())
        if node.worked_since is None:
            node.never_worked += 1
        else:
            node.never_worked = 0
            node.deaths = 0 if now - node.worked_since >= LIVED_S else node.deaths
        node.deaths, node.worked_since = node.deaths + 1, None
        return None if node.never_worked >= NEVER_WORKED else float(min(LONGEST_S, FIRST_S * 2 ** (node.deaths - 1)))
