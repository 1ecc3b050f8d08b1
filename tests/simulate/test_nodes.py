"""Checks nodes in virtual time: figure 6 of the paper by hand, links, speeds, joins, micro-batches, and what holds for
every run.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest
from kigen_lab.simulate.nodes.model import NodeTask, Parcel, Release, Sink, Step, System, Wire, singles
from kigen_lab.simulate.nodes.node_simulation import simulate_nodes
from kigen_lab.simulate.nodes.outcome import EXACT_US, Segment, joined

from kigen.schedule import PolicySettings, make_policy


def give(
    stream: str, at_us: float, count: int = 1, node: str = "n", job: int = 0, label: str = "", age_us: float = 0.0
) -> Release:
    return Release(stream, node, at_us, Parcel(label or f"{stream}@{at_us:g}", count, at_us - age_us, job))


def overlapping(segments: Iterable[Segment]) -> list[tuple[Segment, Segment]]:
    """Returns pairs that use a processor at the same time: there must be none."""
    ordered = sorted(segments, key=lambda s: (s.node, s.start_us, s.end_us))
    return [(a, b) for a, b in pairwise(ordered) if a.node == b.node and b.start_us < a.end_us - EXACT_US]


def figure_6() -> System:
    first = NodeTask("T1", "n", ("in",), (Step("O1", 1.0, ("s1",)), Step("O2", 1.0, ("s2",))), 2.0)
    second = NodeTask("T2", "n", ("s1",), (Step("O3", 1.0, ("s3",)),), 5.0)
    return System({"n": 1.0}, (first, second), (Sink("a", "s2", "n", 2.0), Sink("b", "s3", "n", 7.0)))


def test_figure_6_by_edf() -> None:
    """time   1    2    3    4    5    6    7 T1     [p1 O1,O2 ][p2 O1,O2 ] T2                           [p1 ][p2 ]
    (p1,T2) comes at 2, due at 7; (p2,T1) comes at 3, due at 5: it goes first
    """
    outcome = simulate_nodes(figure_6(), [give("in", 1.0, label="p1"), give("in", 3.0, label="p2")], "edf", record=True)
    ran = [(s.task, s.label, s.start_us, s.end_us) for s in joined(outcome.segments, by_operator=False)]
    assert ran == [("T1", "p1", 1.0, 3.0), ("T1", "p2", 3.0, 5.0), ("T2", "p1", 5.0, 6.0), ("T2", "p2", 6.0, 7.0)]
    created = {(i.task, i.label): (i.created_us, i.deadline_us) for i in outcome.instances}
    assert created == {
        ("T1", "p1"): (1.0, 3.0),
        ("T2", "p1"): (2.0, 7.0),
        ("T1", "p2"): (3.0, 5.0),
        ("T2", "p2"): (4.0, 9.0),
    }
    assert not any(i.missed for i in outcome.instances)


def test_figure_6_by_fifo() -> None:
    outcome = simulate_nodes(figure_6(), [give("in", 1.0, label="p1"), give("in", 3.0, label="p2")], "fifo")
    assert [(i.task, i.label) for i in outcome.instances if i.missed] == [("T1", "p2")]


def test_urgent_tuples_overtake_between_tuples_only() -> None:
    """A parcel of 3 tuples of 10 runs from 0. An urgent tuple arrives at 15 and waits for the running one until 20."""
    long = NodeTask("long", "n", ("a",), (Step("A", 10.0, ("x",)),), 1000.0)
    short = NodeTask("short", "n", ("b",), (Step("B", 1.0, ("y",)),), 10.0)
    system = System({"n": 1.0}, (long, short), (Sink("x", "x", "n", 1e3), Sink("y", "y", "n", 1e3)))
    outcome = simulate_nodes(system, [give("a", 0.0, 3), give("b", 15.0)])
    assert outcome.worst_us() == {"y": 6.0, "x": 31.0}
    assert simulate_nodes(system, [give("a", 0.0, 3), give("b", 15.0)], "fifo").worst_us() == {"y": 16.0, "x": 30.0}


def test_links_send_one_parcel_after_another() -> None:
    """A parcel has 100 bytes, at 10 bytes/us and 7 us of delay. The second waits until the first is sent; then node b
    (speed 2) takes 1.
    """
    task = NodeTask("t", "b", ("s",), (Step("O", 2.0, ("r",)),), 50.0)
    wires = {("a", "b"): Wire(7.0, 10e6), ("b", "a"): Wire(7.0)}
    routes = {"s": (("a", "b"),), "r": (("b", "a"),)}
    system = System({"a": 1.0, "b": 2.0}, (task,), (Sink("r", "r", "a", 100.0),), routes, wires, {"s": 100.0})
    outcome = simulate_nodes(system, [give("s", 0.0, node="a"), give("s", 0.0, node="a", label="two")])
    assert [d.at_us for d in outcome.deliveries] == [10 + 7 + 1 + 7, 20 + 7 + 1 + 7]
    assert [i.created_us for i in outcome.instances] == [17.0, 27.0], "a sub-deadline runs from the arrival on the node"


def test_who_waits_meets_parcels_of_the_same_job() -> None:
    join = NodeTask("j", "n", ("a", "b"), (Step("J", 1.0, ("o",)),), 9.0, waits=True)
    system = System({"n": 1.0}, (join,), (Sink("o", "o", "n", 9.0),))
    releases = [
        give("a", 0.0, 2, job=0),
        give("a", 10.0, 2, job=1),
        give("b", 12.0, 2, job=1),
        give("b", 20.0, 2, job=0),
    ]
    outcome = simulate_nodes(system, releases)
    assert [(d.label, d.count, d.at_us) for d in outcome.deliveries] == [("a@10", 2, 14.0), ("a@0", 2, 22.0)]


def test_half_pass_and_empty_parcels_are_news_to_who_waits() -> None:
    half = NodeTask("half", "n", ("a",), (Step("H", 1.0, ("h",), 0.5),), 9.0)
    join = NodeTask("j", "n", ("h", "b"), (Step("J", 1.0, ("o",)),), 9.0, waits=True)
    system = System({"n": 1.0}, (half, join), (Sink("o", "o", "n", 9.0), Sink("h", "h", "n", 9.0)))
    releases = [part for stream in ("a", "b") for part in singles(give(stream, 0.0, 5, label=stream))]
    outcome = simulate_nodes(system, releases)
    counts = Counter(d.output for d in outcome.deliveries)
    assert counts == {"h": 3, "o": 5}


def test_aged_tuples_are_due_from_their_birth() -> None:
    task = NodeTask("t", "n", ("s",), (Step("O", 1.0, ("r",)),), 30.0)
    outcome = simulate_nodes(System({"n": 1.0}, (task,), (Sink("r", "r", "n", 30.0),)), [give("s", 5.0, age_us=50.0)])
    assert outcome.instances[0].deadline_us == -15.0
    assert outcome.missed() == (1, 1)


def test_who_comes_before_its_nominal_release_runs_early_but_is_no_more_urgent() -> None:
    """Both arrive at 0. The chain's second task is due 10 after a nominal release of 40, so the other (due at 45) goes
    first.
    """
    second = NodeTask("second", "n", ("a",), (Step("A", 5.0, ("x",)),), 10.0)
    other = NodeTask("other", "n", ("b",), (Step("B", 5.0, ("y",)),), 45.0)
    sinks = (Sink("x", "x", "n", 50.0), Sink("y", "y", "n", 45.0))
    releases = [give("a", 0.0), give("b", 0.0)]
    plain = simulate_nodes(System({"n": 1.0}, (second, other), sinks), releases)
    assert [(i.task, i.deadline_us, i.end_us) for i in plain.instances] == [
        ("second", 10.0, 5.0),
        ("other", 45.0, 10.0),
    ]
    nominal = simulate_nodes(System({"n": 1.0}, (replace(second, release_us=40.0), other), sinks), releases)
    assert [(i.task, i.deadline_us, i.end_us) for i in nominal.instances] == [
        ("other", 45.0, 5.0),
        ("second", 50.0, 10.0),
    ]


def test_a_micro_batch_has_its_fixed_cost_and_gives_at_its_end() -> None:
    tasks = (
        NodeTask("t", "n", ("s",), (Step("O", 1.0, ("r",)),), 1000.0),
        NodeTask("u", "n", ("s",), (Step("P", 1.0, ("q",)),), 1000.0),
    )
    system = System({"n": 1.0}, tasks, (Sink("r", "r", "n", 1000.0), Sink("q", "q", "n", 1000.0)))
    settings = PolicySettings(fixed_us=100.0, learning=False, may_drop=False)
    outcome = simulate_nodes(system, [give("s", 0.0, 5)], lambda of: make_policy("pack", of, settings), fixed_us=100.0)
    assert outcome.worst_us() == {"r": 110.0, "q": 110.0}
    assert {i.end_us for i in outcome.instances} == {110.0}


@pytest.mark.parametrize("rule", ["edf", "fifo"])
@pytest.mark.parametrize("seed", range(4))
def test_work_is_conserved_and_processors_are_not_shared(rule: str, seed: int) -> None:
    """Chains of three tasks run over three nodes. Every tuple comes out, a node is busy for exactly its work, and it is
    never idle while it has work.
    """
    rng = random.Random(seed)
    tasks, sinks, routes, releases = [], [], {}, []
    for chain in range(6):
        at = [rng.choice("abc") for _ in range(3)]
        for i, node in enumerate(at):
            source = f"s{chain}.{i}"
            tasks.append(
                NodeTask(
                    f"t{chain}.{i}",
                    node,
                    (source,),
                    (Step(f"o{chain}.{i}", rng.randint(1, 9), (f"s{chain}.{i + 1}",)),),
                    50.0,
                )
            )
            if i and at[i - 1] != node:
                routes[source] = ((at[i - 1], node),)
        sinks.append(Sink(f"out{chain}", f"s{chain}.3", at[-1], 100.0))
        releases += [give(f"s{chain}.0", rng.uniform(0, 300), rng.randint(1, 4), at[0]) for _ in range(10)]
    outcome = simulate_nodes(
        System(dict.fromkeys("abc", 1.0), tuple(tasks), tuple(sinks), routes), releases, rule, record=True
    )
    came = sum(r.parcel.count for r in releases)
    assert outcome.missed()[1] == came
    assert not overlapping(outcome.segments)
    work = sum(
        t.steps[0].cost_us * r.parcel.count
        for t in tasks
        for r in releases
        if t.name[1:].split(".")[0] == r.stream[1:].split(".")[0]
    )
    assert sum(s.end_us - s.start_us for s in outcome.segments) == pytest.approx(work)
    node_of = {t.name: t.node for t in tasks}
    for node in "abc":
        busy = joined([s for s in outcome.segments if s.node == node], by_operator=False)
        resumed = [b.start_us for a, b in pairwise(busy) if b.start_us > a.end_us + 1e-6]
        stays = [(i.created_us, i.end_us) for i in outcome.instances if node_of[i.task] == node]
        assert not any(created < start - 1e-6 < end for start in resumed for created, end in stays), (
            "idle with work waiting"
        )


def test_an_unknown_rule_says_what_to_write() -> None:
    with pytest.raises(ValueError, match="write one of edf, fifo"):
        simulate_nodes(figure_6(), [], "lifo")
