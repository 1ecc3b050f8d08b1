"""No takeover while the primary is alive and reachable; one soon after it is not. Nodes in time, on links that can be
cut."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from kigen_lab.simulate.standby.machine import events as e
from kigen_lab.simulate.standby.machine.detector import Beats, Detector
from kigen_lab.simulate.standby.machine.node import Node, Tick, Times
from kigen_lab.simulate.standby.machine.topology import Place
from protocol.cases import chain

NAMES = (("U", 0), ("N", 0), ("N", 1), ("D", 0))
DELAY_US = 1_000.0
Cut = Callable[[str, str, float], bool]


def takeovers(until_us: float, cut: Cut) -> list[tuple[str, float]]:
    """Steps of a millisecond; `cut(sender, to, now)`: nothing passes. Messages take one step."""
    topology = chain("lazy")
    nodes = {f"{node}.{index}": Node(Place(topology, node, index), Times(), 0.0) for node, index in NAMES}
    under_way: list[e.Send] = []
    found, now = [], 0.0
    while now < until_us:
        now += DELAY_US
        actions = [(name, node.handle(now, Tick())) for name, node in nodes.items() if node.next_us() <= now]
        arrived, under_way = under_way, []
        actions += [(send.to, nodes[send.to].handle(now, e.Delivered(send.message))) for send in arrived]
        for name, done in actions:
            for action in done:
                if isinstance(action, e.Send) and not cut(name, action.to, now):
                    under_way.append(action)
                elif isinstance(action, e.Became) and action.role == "primary":
                    found.append((name, now))
    return found


def test_nobody_takes_over_from_a_primary_that_is_well() -> None:
    assert takeovers(5e6, lambda sender, to, now: False) == []


def test_a_cut_between_the_two_replicas_moves_nothing() -> None:
    assert takeovers(5e6, lambda sender, to, now: {sender, to} == {"N.0", "N.1"}) == []


def test_a_secondary_that_is_alone_does_not_take_over() -> None:
    assert takeovers(5e6, lambda sender, to, now: "N.1" in (sender, to)) == []


@pytest.mark.parametrize("killed_us", [1_000.0, 730_000.0, 2_000_000.0])
def test_a_dead_primary_is_replaced_once_and_soon(killed_us: float) -> None:
    found = takeovers(killed_us + 3e6, lambda sender, to, now: now >= killed_us and "N.0" in (sender, to))
    assert [name for name, _ in found] == ["N.1"]
    beats = Times().beats
    assert found[0][1] - killed_us <= beats.silence_us + 2 * beats.answer_us + 5 * DELAY_US


def test_a_primary_that_wakes_up_is_fenced_and_stands_by() -> None:
    """SIGSTOP for a second: afterwards there is one primary, and the other may take over in turn."""

    def cut(sender: str, to: str, now: float) -> bool:
        asleep = "N.0" if 1e6 <= now < 2e6 else "N.1" if now >= 4e6 else ""
        return asleep in (sender, to)

    assert [name for name, _ in takeovers(6e6, cut)] == ["N.1", "N.0"]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_due_is_done(seed: int) -> None:
    """At the very time that it names, the detector moves on: once a rounding let it wait for ever."""
    draw = random.Random(seed)
    detector = Detector(Beats(), draw.uniform(0, 1e9))
    assert detector.step(detector.due_us()) == "ask"
    detector.answered("U.0", hears=True, epoch=1)
    assert detector.step(detector.due_us()) == "ask"
    detector.answered("U.0", hears=False, epoch=1)
    assert detector.step(detector.due_us()) == "take over"
