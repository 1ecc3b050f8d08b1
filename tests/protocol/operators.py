"""Tiny operators as slow, obvious references: a state is a tuple, a step a function of it.

Items are (time, value). `feed` gives the new state, the results, and leaves `needed` to say which inputs the state
still rests on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Item = tuple[int, Any]
State = Any


@dataclass(frozen=True)
class Operator:
    start: State
    feed: Callable[[State, str, int, Item], tuple[State, list[Item]]]
    needed: Callable[[State], dict[str, int]]  # of the streams on which something still rests; others: nothing


def select(keep: Callable[[int], bool]) -> Operator:
    return Operator((), lambda state, stream, offset, item: (state, [item] if keep(item[1]) else []), lambda state: {})


def window_sum(stream: str, alive: Callable[[int, Item, int, Item], bool]) -> Operator:
    """At each tuple the sum over those alive; `alive(its offset, it, the newest offset, the newest)`."""

    def feed(state: State, _: str, offset: int, item: Item) -> tuple[State, list[Item]]:
        held = (*(one for one in state if alive(*one, offset, item)), (offset, item))
        return held, [(item[0], sum(value for _, (_, value) in held))]

    return Operator((), feed, lambda state: {stream: state[0][0]} if state else {})


def range_sum(length: int, stream: str = "s") -> Operator:
    return window_sum(stream, lambda o, item, newest, last: item[0] + length > last[0])


def rows_sum(rows: int, stream: str = "s") -> Operator:
    return window_sum(stream, lambda o, item, newest, last: o + rows > newest)


def range_join(length: int, left: str = "a", right: str = "b") -> Operator:
    """Pairs of two streams that are alive together; tuples are worked off in the order of (time, stream), as far as
    both have come.

    How far each stream has come is state too: the last tuple of each is needed, dead or alive.
    """

    def feed(state: State, stream: str, offset: int, item: Item) -> tuple[State, list[Item]]:
        held, waiting, seen = state
        waiting = tuple(sorted((*waiting, (item[0], stream, offset, item[1]))))
        seen = tuple(sorted({**dict(seen), stream: (item[0], offset)}.items()))
        results: list[Item] = []
        while waiting and len(seen) == 2:
            time, side, at, value = waiting[0]
            other = right if side == left else left
            if (dict(seen)[other][0], other) < (time, side):
                break
            held = tuple(one for one in held if one[0] + length > time)
            results += [(time, (value, one[3]) if side == left else (one[3], value)) for one in held if one[1] == other]
            held, waiting = (*held, (time, side, at, value)), waiting[1:]
        return (held, waiting, seen), results

    def needed(state: State) -> dict[str, int]:
        held, waiting, seen = state
        oldest = {stream: offset for stream, (_, offset) in seen}
        for _, side, at, _ in (*held, *waiting):
            oldest[side] = min(at, oldest[side])
        return oldest

    return Operator(((), (), ()), feed, needed)


def run(operator: Operator, inputs: list[tuple[str, int, Item]]) -> list[Item]:
    state, results = operator.start, []
    for stream, offset, item in inputs:
        state, more = operator.feed(state, stream, offset, item)
        results += more
    return results
