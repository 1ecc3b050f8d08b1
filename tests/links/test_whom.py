"""Whom readers follow, in all orders: wherever they begin, they come to follow one server, and stay."""

from __future__ import annotations

from itertools import product

import pytest

from kigen.replicas.server_choice import Seen, Whom

Place = tuple[
    int, bool, bool
]  # the server it follows or is about to; whether it is there already; whether the other has not missed it yet
Readers = tuple[Place, ...]


def seen(readers: Readers, at: int) -> Seen:
    here = {f"r{i}" for i, (where, there, lingers) in enumerate(readers) if (there if where == at else lingers)}
    return Seen(at, False, frozenset(here))


def moves(readers: Readers) -> list[Readers]:
    found = []
    for i, (at, there, lingers) in enumerate(readers):
        afterwards = []
        if lingers:
            afterwards.append((at, there, False))
        if not there:
            afterwards.append((at, True, lingers))
        else:
            whom = Whom(f"r{i}", 2, at)
            if whom.elsewhere(seen(readers, at), [seen(readers, 1 - at)]):
                assert not whom.left(True), "nobody was gone"
                afterwards.append((whom.at, False, True))
        found += [(*readers[:i], after, *readers[i + 1 :]) for after in afterwards]
    return found


@pytest.mark.parametrize("readers", [2, 3, 4])
def test_they_meet_in_whatever_order_they_look(readers: int) -> None:
    """No order goes round in circles, and each ends with all at one server."""
    done: dict[Readers, None] = {}
    for places in product((0, 1), repeat=readers):
        first: Readers = tuple((at, True, False) for at in places)
        stack: list[tuple[Readers, list[Readers]]] = [(first, moves(first))]
        path = {first}
        while stack:
            now, left = stack[-1]
            if left:
                after = left.pop()
                assert after not in path, f"round in circles at {after}"
                if after not in done:
                    path.add(after)
                    stack.append((after, moves(after)))
                continue
            if not moves(now):
                assert len({at for at, _, _ in now}) == 1, f"apart for ever: {now}"
            stack.pop()
            path.discard(now)
            done[now] = None
    assert len(done) > 2**readers


def test_a_server_that_is_cut_off_is_left_only_for_one_that_is_not() -> None:
    nobody = frozenset[str]()
    here, deaf = Seen(0, False, nobody), Seen(0, True, nobody)
    assert not Whom.cut_off(here, [Seen(1, False, nobody)])
    assert Whom.cut_off(deaf, [Seen(1, False, nobody)])
    assert not Whom.cut_off(deaf, [Seen(1, True, nobody)])
    assert not Whom.cut_off(deaf, [])
    assert not Whom("a", 2, 1).elsewhere(Seen(1, False, frozenset({"a"})), [Seen(0, True, frozenset({"b", "c"}))])
