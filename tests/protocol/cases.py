"""Small systems, what they must give, and how a run is judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kigen_lab.simulate.standby.machine.topology import Mode, Recovery, Standby, Stream, Topology
from protocol.operators import Item, Operator, range_join, range_sum, rows_sum, run, select
from protocol.world import World, build

ITEMS: list[Item] = [(0, 2), (1, 3), (2, 4), (5, 6), (6, 3), (6, 8)]
OPERATORS = {"selection": select(lambda v: v != 3), "range": range_sum(2), "rows": rows_sum(2)}
NONE = select(lambda v: False)
Check = Callable[[list[Item], list[Item], bool, bool], str]


def precise(got: list[Item], expected: list[Item], at_rest: bool, lost: bool) -> str:
    assert got == (expected if at_rest else expected[: len(got)])
    assert not lost
    return "precise"


def rollback(got: list[Item], expected: list[Item], at_rest: bool, lost: bool) -> str:
    once = list(dict.fromkeys(got))
    assert once == (expected if at_rest else expected[: len(once)])
    return "rollback" if len(got) > len(once) else "precise"


def gap(got: list[Item], expected: list[Item], at_rest: bool, lost: bool) -> str:
    rest = iter(expected)
    assert all(any(one == other for other in rest) for one in got), f"not a part of {expected} in order: {got}"
    assert not at_rest or lost or got == expected, "a loss was not reported"
    return "gap" if at_rest and got != expected else "precise"


CHECKS: dict[str, Check] = {"precise": precise, "rollback": rollback, "gap": gap}


@dataclass
class Case:
    world: World
    expected: list[Item]
    seen: Counter[str] = field(default_factory=Counter)

    def checked(
        self, check: Check = precise, kept: int | None = None
    ) -> tuple[World, Callable[[World], None], Callable[[World], None]]:
        """The world, what holds always, what holds at rest. `kept`: the most that a source may still hold then, all
        being acknowledged."""

        def judge(now: World, at_rest: bool) -> None:
            stuck = any(str(replica.stuck) for name, replica in now.replicas.items() if name not in now.down)
            lost = any(host.notes for host in now.hosts.values())
            got = list(now.hosts["D.0"].delivered)
            self.seen[check(got, self.expected, at_rest and not stuck, lost and not stuck)] += 1
            self.seen["stuck"] += stuck
            epochs = [(node, epoch) for node, epoch, _ in now.listened]
            assert len(set(epochs)) == len(epochs), f"two primaries of an epoch were listened to: {now.listened}"

        def at_rest(now: World) -> None:
            judge(now, True)
            for node, (stream, _) in now.sources.items():
                first, items = now.hosts[f"{node}.0"].queue(stream)
                assert kept is None or len(items) <= kept, f"{node} keeps {len(items)} from {first} on at rest"

        return self.world, lambda now: judge(now, False), at_rest


def chain(mode: Mode, batch: float = 2, recovery: Recovery = "precise", **more: Any) -> Topology:
    return Topology(
        (Stream("s", "U", ("N",)), Stream("r", "N", ("D",))), {"N": Standby(mode, batch, recovery=recovery, **more)}
    )


def one_chain(topology: Topology, operator: Operator, tuples: int, **budget: int) -> Case:
    world = build(topology, {"U": NONE, "N": operator, "D": NONE}, {"U": ("s", ITEMS[:tuples])}, "D.0", **budget)
    return Case(world, run(operator, [("s", offset, item) for offset, item in enumerate(ITEMS[:tuples])]))


def two_nodes(
    first: float, second: float, tuples: int, returning: Any = "rebuild", operator: str = "range", **budget: int
) -> Case:
    """U -> N -> M -> D, both with a standby; N runs the operator, M a window of two rows."""
    streams = (Stream("s", "U", ("N",)), Stream("r", "N", ("M",)), Stream("q", "M", ("D",)))
    standby = {node: Standby("lazy", batch, returning=returning) for node, batch in (("N", first), ("M", second))}
    operators = {"U": NONE, "N": OPERATORS[operator], "M": rows_sum(2, "r"), "D": NONE}
    world = build(Topology(streams, standby), operators, {"U": ("s", ITEMS[:tuples])}, "D.0", **budget)
    between = run(operators["N"], [("s", offset, item) for offset, item in enumerate(ITEMS[:tuples])])
    return Case(world, run(operators["M"], [("r", offset, item) for offset, item in enumerate(between)]))


def join(mode: Mode, batch: float, returning: Any, **budget: int) -> Case:
    """A and B into N, which joins windows of them."""
    streams = (Stream("a", "A", ("N",)), Stream("b", "B", ("N",)), Stream("r", "N", ("D",)))
    left, right = [(0, 1), (2, 2), (3, 3), (7, 4), (9, 9)], [(1, 5), (3, 6), (4, 7), (8, 8), (9, 1)]
    operators = {"A": NONE, "B": NONE, "N": range_join(3), "D": NONE}
    sources: dict[str, tuple[str, list[Item]]] = {"A": ("a", left), "B": ("b", right)}
    world = build(
        Topology(streams, {"N": Standby(mode, batch, returning=returning)}), operators, sources, "D.0", **budget
    )
    fed = [("a", offset, item) for offset, item in enumerate(left)] + [
        ("b", offset, item) for offset, item in enumerate(right)
    ]
    return Case(world, run(operators["N"], fed))
