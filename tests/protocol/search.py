"""Tries every order of events: all moves from a first world in all orders, each world once; or one order at random.

A world has a `key`. Moves and faults give the name of a move and the world after it. A world that has no moves, except
for faults, is at rest.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Keyed(Protocol):
    def key(self) -> Hashable: ...


W = TypeVar("W", bound=Keyed)
Moves = Callable[[W], Iterator[tuple[object, W]]]


@dataclass
class Found:
    worlds: int = 0
    at_rest: int = 0


@dataclass(frozen=True)
class Search(Generic[W]):
    first: W
    moves: Moves[W]
    faults: Moves[W]
    always: Callable[[W], None]
    at_rest: Callable[[W], None]

    def explore(self, most: int = 400_000) -> Found:
        """Searches depth first. On a failure the error carries the path that led there."""
        found, seen = Found(), {self.first.key()}
        stack: list[tuple[W, tuple[object, ...]]] = [(self.first, ())]
        while stack:
            world, path = stack.pop()
            found.worlds += 1
            assert found.worlds <= most, f"more than {most} worlds"
            try:
                self.always(world)
                moves = list(self.moves(world))
                if not moves:
                    found.at_rest += 1
                    self.at_rest(world)
                for name, after in (*moves, *self.faults(world)):
                    key = after.key()
                    if key not in seen:
                        seen.add(key)
                        stack.append((after, (path, name)))
            except (AssertionError, KeyError) as problem:
                problem.add_note("after: " + "\n  ".join(_steps(path)))
                raise
        return found

    def wander(self, seed: int, of_faults: float = 0.04) -> int:
        """Takes one random order, for cases too large for all orders. Faults come in at random."""
        draw, world = random.Random(seed), self.first
        path: tuple[object, ...] = ()
        steps = 0
        try:
            while True:
                self.always(world)
                moves, broken = list(self.moves(world)), list(self.faults(world))
                if not moves:
                    self.at_rest(world)
                    if not broken or draw.random() < 0.3:
                        return steps
                if broken and (not moves or draw.random() < of_faults):
                    moves = broken
                if not moves:
                    return steps
                name, world = draw.choice(moves)
                path, steps = (path, name), steps + 1
                assert steps < 5_000, "it does not come to rest"
        except (AssertionError, KeyError) as problem:
            problem.add_note(f"seed {seed}, after: " + "\n  ".join(_steps(path)))
            raise


def _steps(path: tuple[object, ...]) -> list[str]:
    steps: list[str] = []
    while path:
        path, name = path  # type: ignore[assignment]  # pairs, nested: (rest, name)
        steps.append(str(name))
    return steps[::-1]
