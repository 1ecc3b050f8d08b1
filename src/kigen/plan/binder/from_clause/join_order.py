"""Chooses the order in which the inputs of a FROM are joined.

One order is tried from every input as the first. The next input is the smallest of those that an equality connects with
the inputs joined so far; failing that, of those that an inequality connects; failing that, of all. The best of these
orders has the fewest cross products, then the fewest joins without an equality, then those joins as late as possible,
then the fewest rows in between. Sizes are rough, so an order counts as better only if it has at most half the rows.
Invariant: otherwise the order closest to the written one wins, so that plans are what users expect and joins of a
family stay alike (kigen.plan.shared_joins.sharing). Cost: n cubed for n inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from kigen.plan.estimates import joined_rows

_CLEARLY = 2.0


class Link(IntEnum):
    """The connection of an input with the inputs joined before it."""

    EQUAL = 0
    ORDERED = 1
    CROSS = 2


Connects = Callable[[frozenset[int], int], Link]  # how the inputs of a set are connected with one more


def join_order(sizes: Sequence[float], connects: Connects) -> list[int]:
    """Returns the inputs in the order to join them; `sizes` are rows alive."""
    if len(sizes) <= 2:
        return list(range(len(sizes)))
    best = _from(0, sizes, connects)
    for first in range(1, len(sizes)):
        other = _from(first, sizes, connects)
        if other.links < best.links or (other.links == best.links and other.rows <= best.rows / _CLEARLY):
            best = other
    return best.order


@dataclass(frozen=True)
class _Order:
    order: list[int]
    links: tuple[int, int, int]  # cross products; joins without an equality; joins from the first of those to the end
    rows: float  # of all joins


def _from(first: int, sizes: Sequence[float], connects: Connects) -> _Order:
    order, rows, between = [first], sizes[first], 0.0
    links: list[Link] = []
    while len(order) < len(sizes):
        joined = frozenset(order)
        rest = [k for k in range(len(sizes)) if k not in joined]
        link = min(connects(joined, k) for k in rest)
        rest = [k for k in rest if connects(joined, k) is link]
        following = next(k for k in rest if sizes[k] <= _CLEARLY * min(sizes[k] for k in rest))
        size = sizes[following]
        values = max(size, *(sizes[k] for k in order))  # distinct keys, if the largest input has each key once
        rows = rows * size / values if link is Link.EQUAL else joined_rows(rows, size, link.name.lower())
        between += rows
        links.append(link)
        order.append(following)
    unequal = [i for i, link in enumerate(links) if link is not Link.EQUAL]
    after = len(links) - unequal[0] if unequal else 0
    return _Order(order, (links.count(Link.CROSS), len(unequal), after), between)
