"""What runs on real nodes, in all orders for small cases, in random ones for larger: D has the undisturbed results,
whatever is killed."""

from __future__ import annotations

import os
from typing import Any

import pytest
from protocol.replicas import END, MARK, Chain
from protocol.search import Search

NEVER = 1 << 40
MANY = (2, 4, MARK, 1, 6, MARK, 3, MARK, 8, END)
KINDS = [(True, None), (True, 2), (True, 3), (True, NEVER), (False, None), (False, 2), (False, 3)]
IDS = [
    f"{'selection' if forgetful else 'memory'}-{'UB' if batch == NEVER else batch or 1}" for forgetful, batch in KINDS
]


def search(script: tuple[int, ...], forgetful: bool, batch: int | None, **budget: int) -> Search[Chain]:
    return searched(Chain.over(script, [(forgetful, batch)], **budget))


def searched(chain: Chain) -> Search[Chain]:
    return Search(chain, Chain.moves, Chain.faults, Chain.check, Chain.check_at_rest)


@pytest.mark.parametrize("fault", ["kill", "suspect", "cut", "restart"])
@pytest.mark.parametrize(("forgetful", "batch"), [(True, 2), (False, 2)], ids=["selection", "memory"])
def test_all_orders_with_one_fault(forgetful: bool, batch: int | None, fault: str) -> None:
    found = search((2, END), forgetful, batch, **{fault: 1}).explore()
    assert found.at_rest > 1


@pytest.mark.parametrize("batch", [None, 2, NEVER])
def test_without_an_end_the_acks_of_whoever_leads_count(batch: int | None) -> None:
    """D turned away and back: the one that it left led on, and once was not asked any more what it needed."""
    assert search((2, MARK), True, batch, suspect=2).explore().at_rest > 1
    one = search(MANY[:-2], True, batch, kill=3, suspect=4, cut=2, restart=1)
    for seed in range(10):
        one.wander(seed, 0.1)


@pytest.mark.parametrize(("forgetful", "batch"), KINDS, ids=IDS)
def test_random_orders_with_many(forgetful: bool, batch: int | None) -> None:
    one = search(MANY, forgetful, batch, kill=3, suspect=2, cut=2, restart=1)
    for seed in range(20):
        one.wander(seed, 0.1)


def test_a_replica_that_is_back_with_everything_done_says_so() -> None:
    """It may end before it has met the node before again: once it then released nothing, and that one waited for
    ever."""
    search(MANY, True, 3, kill=3, suspect=2, cut=2, restart=1).wander(19, 0.1)


BROKEN = {
    "whole steps": ("protocol.replicas.marks", lambda rows: list(range(rows.num_rows))),
    "the number told with an ack": (
        "kigen.replicas.lead_tracking.Leading.delivered",
        lambda me, _: (me._commits[-1][0], 0) if me._commits else None,
    ),
    "acks of what is delivered": (
        "kigen.replicas.lead_tracking.Leading.delivered",
        lambda me, _: me._commits[-1] if me._commits else None,
    ),
    "what is here is known before it is heard": ("protocol.replicas.reached", lambda number, skipping: 0),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_it_rests_on(what: str, monkeypatch: Any) -> None:
    """Without any one of these the search finds an order that fails."""
    monkeypatch.setattr(*BROKEN[what])
    one = search(MANY, True, 3, kill=3, suspect=2, cut=2)
    with pytest.raises(AssertionError):
        [one.wander(seed, 0.1) for seed in range(200)]


@pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="minutes: make soak")
@pytest.mark.parametrize(("forgetful", "batch"), KINDS, ids=IDS)
def test_all_orders_of_larger_cases(forgetful: bool, batch: int | None) -> None:
    """Without faults: with a kill there are too many of them."""
    search((2, MARK, 4, END), forgetful, batch).explore()


@pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="minutes: make soak")
@pytest.mark.parametrize(("forgetful", "batch"), KINDS, ids=IDS)
def test_very_many_random_orders(forgetful: bool, batch: int | None) -> None:
    one = search(MANY, forgetful, batch, kill=4, suspect=3, cut=3, restart=2)
    for seed in range(1000, 3000):
        one.wander(seed, 0.1)


PAIRS = [
    ((True, 2), (True, 2)),
    ((True, 2), (True, NEVER)),
    ((False, 2), (True, 2)),
    ((True, NEVER), (False, 2)),
    ((True, None), (True, 3)),
]


@pytest.mark.parametrize("kinds", PAIRS, ids=str)
def test_two_pairs_in_a_row(kinds: tuple[tuple[bool, int | None], ...]) -> None:
    one = searched(Chain.over(MANY, list(kinds), kill=4, suspect=3, cut=2, restart=1))
    for seed in range(8):
        one.wander(seed, 0.1)


def test_who_skips_is_told_the_number_that_belongs_to_the_place() -> None:
    """n.1 has jumped over results that m has; m.1, which has not got them, turns to n.1. What they came to at m only
    m's acks can say, and m gave them to n. Once m.1 was told 0, and numbered its results from there."""
    chain = Chain.over(MANY, [(True, 2), (True, NEVER)], suspect=3)
    chain = played(
        chain,
        "d follows; m looks around; m follows; m.1 follows; n looks around; n follows; n.1 follows",
        "S makes a row; S makes a row; S makes a row",
        "n takes rows; n works; n commits; m takes rows; m works; m commits; d takes rows; d acknowledges; m looks "
        "around; n looks around",
        "n.1 takes rows; n.1 works; n.1 commits; m.1 suspects; m.1 follows; m.1 takes rows",
    )
    assert chain.named("m.1").whom.at == 0, "n knows"
    chain = played(chain, "m.1 follows; m.1 takes rows; m.1 works; m.1 commits")
    assert chain.named("m.1").made.parties.end == 2, "as many results as m had"


def played(chain: Chain, *names: str) -> Chain:
    for name in "; ".join(names).split("; "):
        chain = dict((*chain.moves(), *chain.faults()))[name]
        chain.check()
    return chain
