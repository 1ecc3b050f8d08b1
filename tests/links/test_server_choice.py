"""Readers choose servers in all orders: wherever they begin, they come to follow one server, and stay."""

from __future__ import annotations

from itertools import product

import pytest

from kigen.replicas.server_choice import ServerChoice, ServerStatus

Place = tuple[
    int, bool, bool
]  # the server it follows or is about to; whether it is there already; whether the other has not missed it yet
Readers = tuple[Place, ...]


def seen(readers: Readers, at: int) -> ServerStatus:
    here = {f"r{i}" for i, (where, there, lingers) in enumerate(readers) if (there if where == at else lingers)}
    return ServerStatus(at, False, frozenset(here))


def moves(readers: Readers) -> list[Readers]:
    found = []
    for i, (at, there, lingers) in enumerate(readers):
        afterwards = []
        if lingers:
            afterwards.append((at, there, False))
        if not there:
            afterwards.append((at, True, lingers))
        else:
            choice = ServerChoice(f"r{i}", 2, at)
            if choice.should_join_others(seen(readers, at), [seen(readers, 1 - at)]):
                assert not choice.leave(True), "nobody was gone"
                afterwards.append((choice.index, False, True))
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
    here, cut_off = ServerStatus(0, False, nobody), ServerStatus(0, True, nobody)
    assert not ServerChoice.should_leave_cut_off(here, [ServerStatus(1, False, nobody)])
    assert ServerChoice.should_leave_cut_off(cut_off, [ServerStatus(1, False, nobody)])
    assert not ServerChoice.should_leave_cut_off(cut_off, [ServerStatus(1, True, nobody)])
    assert not ServerChoice.should_leave_cut_off(cut_off, [])
    assert not ServerChoice("a", 2, 1).should_join_others(
        ServerStatus(1, False, frozenset({"a"})), [ServerStatus(0, True, frozenset({"b", "c"}))]
    )
