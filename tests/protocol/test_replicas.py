"""The parts that run on real nodes, in all orders for small cases and in random ones for larger cases: D has the
undisturbed results, whatever is killed."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from kigen_lab.simulate.standby.virtual_queue import END, WATERMARK
from protocol.chain import Chain
from protocol.passive_pair import PassivePair
from protocol.search import Search
from seeds import seeds

from kigen.replicas.standby_kind import NEVER_FULL, PassiveStandby, ReadingStandby, StandbyKind

MANY = (2, 4, WATERMARK, 1, 6, WATERMARK, 3, WATERMARK, 8, END)
Node = tuple[StandbyKind, bool]  # the kind of its standby, and whether it has a memory


def selection(batch: int | None) -> Node:
    return ReadingStandby(batch=batch, skips_trimmed=True), False


def memory(batch: int | None) -> Node:
    return ReadingStandby(batch=batch), True


NODES = [*map(selection, (None, 2, 3, NEVER_FULL)), *map(memory, (None, 2, 3))]
IDS = [*(f"selection-{batch}" for batch in ("1", "2", "3", "UB")), *(f"memory-{batch}" for batch in ("1", "2", "3"))]


def search(script: tuple[int, ...], *nodes: Node, **budget: int) -> Search[Chain]:
    return Search(
        Chain.over(script, list(nodes), **budget), Chain.moves, Chain.faults, Chain.check, Chain.check_at_rest
    )


@pytest.mark.parametrize("fault", ["kill", "suspect", "cut", "restart"])
@pytest.mark.parametrize("node", [selection(2), memory(2)], ids=["selection", "memory"])
def test_all_orders_with_one_fault(node: Node, fault: str) -> None:
    found = search((2, END), node, **{fault: 1}).explore()
    assert found.at_rest > 1


@pytest.mark.parametrize("batch", [None, 2, NEVER_FULL])
def test_without_an_end_the_acks_of_whoever_leads_count(batch: int | None) -> None:
    """D turned away and back: the replica that it left led on, and once the upstream node did not wait for its acks."""
    assert search((2, WATERMARK), selection(batch), suspect=2).explore().at_rest > 1
    one = search(MANY[:-2], selection(batch), kill=3, suspect=4, cut=2, restart=1)
    for seed in seeds(5, 10):
        one.wander(seed, 0.1)


@pytest.mark.parametrize("node", NODES, ids=IDS)
def test_random_orders_with_many(node: Node) -> None:
    one = search(MANY, node, kill=3, suspect=2, cut=2, restart=1)
    for seed in seeds(10, 20):
        one.wander(seed, 0.1)


def test_a_replica_that_is_back_with_everything_done_says_so() -> None:
    """It may end before its relay has reached the upstream node again: once it then released nothing, and that node
    waited for ever."""
    search(MANY, selection(3), kill=3, suspect=2, cut=2, restart=1).wander(19, 0.1)


BROKEN = {
    "whole steps": ("protocol.chain.find_watermarks", lambda rows: list(range(rows.num_rows))),
    "the number of results in an ack": (
        "kigen.replicas.lead_tracking.LeadTracking.delivered",
        lambda me, _: (me._commits[-1][0], 0) if me._commits else None,
    ),
    "acks of what is delivered": (
        "kigen.replicas.lead_tracking.LeadTracking.delivered",
        lambda me, _: me._commits[-1] if me._commits else None,
    ),
    "what is here is known before a server answers": (
        "kigen_lab.simulate.standby.virtual_replica.upstream_position",
        lambda sequence, skips_trimmed: 0,
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_it_rests_on(what: str, monkeypatch: Any) -> None:
    """Without any one of these the search finds an order that fails."""
    monkeypatch.setattr(*BROKEN[what])
    one = search(MANY, selection(3), kill=3, suspect=2, cut=2)
    with pytest.raises(AssertionError):
        [one.wander(seed, 0.1) for seed in range(200)]


@pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="minutes: make soak")
@pytest.mark.parametrize("node", NODES, ids=IDS)
def test_all_orders_of_larger_cases(node: Node) -> None:
    """Without faults: with a kill there are too many of them."""
    search((2, WATERMARK, 4, END), node).explore()


@pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="minutes: make soak")
@pytest.mark.parametrize("node", NODES, ids=IDS)
def test_very_many_random_orders(node: Node) -> None:
    one = search(MANY, node, kill=4, suspect=3, cut=3, restart=2)
    for seed in range(1000, 3000):
        one.wander(seed, 0.1)


PAIRS = {
    "selection 2, selection 2": (selection(2), selection(2)),
    "selection 2, selection UB": (selection(2), selection(NEVER_FULL)),
    "memory 2, selection 2": (memory(2), selection(2)),
    "selection UB, memory 2": (selection(NEVER_FULL), memory(2)),
    "selection 1, selection 3": (selection(None), selection(3)),
}


@pytest.mark.parametrize("nodes", PAIRS.values(), ids=PAIRS)
def test_two_pairs_in_a_row(nodes: tuple[Node, Node]) -> None:
    one = search(MANY, *nodes, kill=4, suspect=3, cut=2, restart=1)
    for seed in seeds(4, 8):
        one.wander(seed, 0.1)


def test_who_skips_is_told_the_number_that_belongs_to_the_place() -> None:
    """n.1 has jumped over results that m has; m.1, which has not got them, turns to n.1. Only m's acks can say how many
    results they gave at m, and m sent those acks to n. Once n.1 answered 0, and m.1 numbered its results from there."""
    chain = Chain.over(MANY, [selection(2), selection(NEVER_FULL)], suspect=3)
    chain = played(
        chain,
        "d follows; m looks around; m follows; m.1 follows; n looks around; n follows; n.1 follows",
        "S makes a row; S makes a row; S makes a row",
        "n takes rows; n works; n commits; m takes rows; m works; m commits; d takes rows; d acknowledges; m looks "
        "around; n looks around",
        "n.1 takes rows; n.1 works; n.1 commits; m.1 suspects; m.1 follows; m.1 takes rows",
    )
    assert chain.named("m.1").choice.index == 0, "n knows"
    chain = played(chain, "m.1 follows; m.1 takes rows; m.1 works; m.1 commits")
    assert chain.named("m.1").output.end == 2, "as many results as m had"


def played(chain: Chain, *names: str) -> Chain:
    for name in "; ".join(names).split("; "):
        chain = dict((*chain.moves(), *chain.faults()))[name]
        chain.check()
    return chain


PASSIVE_NODES = {"selection": (PassiveStandby(), False), "memory": (PassiveStandby(), True)}


@pytest.mark.parametrize("fault", ["kill", "suspect", "cut", "restart"])
def test_all_orders_of_copies_with_one_fault(fault: str) -> None:
    one = search((2, END), PASSIVE_NODES["memory"], copy=1, **{fault: 1})
    assert replace(one, first=one.first.decided()).explore().at_rest > 1


@pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="minutes: make soak")
@pytest.mark.parametrize("fault", ["kill", "suspect", "cut", "restart"])
@pytest.mark.parametrize("node", PASSIVE_NODES.values(), ids=PASSIVE_NODES)
def test_all_orders_of_copies_from_the_start_on(node: Node, fault: str) -> None:
    """Also those in which the two have not yet found out which of them leads."""
    assert search((END,), node, copy=1, **{fault: 1}).explore().at_rest > 1


@pytest.mark.parametrize("node", PASSIVE_NODES.values(), ids=PASSIVE_NODES)
def test_random_orders_of_copies(node: Node) -> None:
    """Leaders are killed, also both replicas, and while they write; readers turn away by mistake; links are cut."""
    one = search(MANY, node, copy=6, kill=4, suspect=3, cut=2, restart=1)
    for seed in seeds(15, 30):
        one.wander(seed, 0.15)


@pytest.mark.parametrize("first", [selection(2), memory(2), PASSIVE_NODES["memory"]], ids=["lazy", "memory", "passive"])
@pytest.mark.parametrize("second", [selection(2), PASSIVE_NODES["memory"]], ids=["lazy", "passive"])
def test_a_passive_pair_beside_another(first: Node, second: Node) -> None:
    one = search(MANY, first, second, copy=6, kill=4, suspect=3, cut=2, restart=1)
    for seed in seeds(4, 8):
        one.wander(seed, 0.15)


def test_copies_rest_on_acks_that_wait_for_them(monkeypatch: Any) -> None:
    """If a copy is confirmed for what the leader has worked off meanwhile, inputs are trimmed that the copy needs."""
    confirm = PassivePair.confirm

    def confirms_too_much(self: PassivePair, chain: Chain, place: int, index: int) -> None:
        self.unconfirmed[index] = chain.pairs[place][1 - index].files.worked
        confirm(self, chain, place, index)

    monkeypatch.setattr(PassivePair, "confirm", confirms_too_much)
    one = search(MANY, PASSIVE_NODES["memory"], copy=6, kill=4)
    with pytest.raises(AssertionError):
        [one.wander(seed, 0.15) for seed in range(200)]
