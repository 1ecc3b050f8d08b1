"""When a node that died is started again: after 1, 2, 4 ... 60 seconds; and when that is given up.

Invariant: a node that has worked is never given up, however often it dies; one that did not come to work in so many
starts in a row will not the next time, either. Pure: whoever calls says what time it is.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_S, LONGEST_S = 1.0, 60.0
LIVED_S = 60.0  # at work for so long: the next death is the first again
NEVER_WORKED = 5


@dataclass
class _Node:
    deaths: int = 0  # since it last lived for a while
    never_worked: int = 0  # starts in a row
    worked_since: float | None = None  # of this start


class Restarts:
    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}

    def works(self, name: str, now: float) -> None:
        node = self._nodes.setdefault(name, _Node())
        node.worked_since = now if node.worked_since is None else node.worked_since

    def died(self, name: str, now: float) -> float | None:
        """How many seconds to wait before the next start; None: it is given up."""
        node = self._nodes.setdefault(name, _Node())
        if node.worked_since is None:
            node.never_worked += 1
        else:
            node.never_worked = 0
            node.deaths = 0 if now - node.worked_since >= LIVED_S else node.deaths
        node.deaths, node.worked_since = node.deaths + 1, None
        return None if node.never_worked >= NEVER_WORKED else float(min(LONGEST_S, FIRST_S * 2 ** (node.deaths - 1)))
