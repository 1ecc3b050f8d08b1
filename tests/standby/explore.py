"""Every order of events: from a first world, all moves are tried in all orders, each world once.

Moves: a message at the head of a link arrives; a source makes its next tuple; a sink acknowledges. Faults, as far as the budget goes:
`crash` of a replica (what it sent may still arrive, or not), `suspect`: a takeover though the primary lives (it was only slow), `cut` of
a link with all that was under way on it, `back`: a crashed replica begins anew without state, `copy`: passive standby's copy. A replica
whose primary is down takes over at some time. A world without moves but faults is at rest: there the whole output must have come.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from standby.world import World, empty

from kigen.standby import events as e
from kigen.standby import messages as m
from kigen.standby.cuts import Cut
from kigen.standby.replica import Replica
from kigen.standby.topology import Place

Move = tuple[object, World]


@dataclass
class Found:
    worlds: int = 0
    at_rest: int = 0
    takeovers: int = 0


def explore(
    first: World, always: Callable[[World], None], at_rest: Callable[[World], None], crashable: set[str], most: int = 400_000
) -> Found:
    """Depth first. On a failure the error carries the path that led there."""
    found, seen = Found(), {first.key()}
    stack: list[tuple[World, tuple[object, ...]]] = [(first, ())]
    while stack:
        world, path = stack.pop()
        found.worlds += 1
        assert found.worlds <= most, f"more than {most} worlds"
        try:
            always(world)
            moves = list(normal(world))
            if not moves and not any({f"{node}.0", f"{node}.1"} <= world.down for node in world.topology.standby):
                found.at_rest += 1
                at_rest(world)
            for name, after in (*moves, *faults(world, crashable)):
                key = after.key()
                if key not in seen:
                    seen.add(key)
                    found.takeovers += str(name).startswith("take over") if isinstance(name, str) else 0
                    stack.append((after, (path, name)))
        except (AssertionError, KeyError) as problem:
            problem.add_note("after: " + "\n  ".join(_steps(path)))
            raise
    return found


def wander(world: World, always: Callable[[World], None], at_rest: Callable[[World], None], crashable: set[str], seed: int) -> int:
    """One order, drawn at random, for cases too large for all of them. Faults come in at random, and pairs that are down come back."""
    draw = random.Random(seed)
    path: tuple[object, ...] = ()
    steps = 0
    try:
        while True:
            always(world)
            moves, broken = list(normal(world)), list(faults(world, crashable))
            down = any({f"{node}.0", f"{node}.1"} <= world.down for node in world.topology.standby)
            if not moves and not down:
                at_rest(world)
                if not broken or draw.random() < 0.3:
                    return steps
            if broken and (not moves or draw.random() < 0.04):
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


def normal(world: World) -> Iterator[Move]:
    for (sender, to), waiting in world.channels.items():
        if waiting:
            message, payload, _ = waiting[0]
            shorter = {**world.channels, (sender, to): waiting[1:]}
            yield (to, message), replace(world, channels=shorter).step(to, e.Delivered(message), payload)
    for node, (stream, items) in world.sources.items():
        name = f"{node}.0"
        if world.replicas[name].outputs.queues[stream].end < len(items):
            at = world.replicas[name].outputs.queues[stream].end
            host = world.hosts[name].append(stream, [items[at]])
            ready = replace(world, hosts={**world.hosts, name: host})
            yield f"{node} makes {at}", ready.step(name, e.Produced(0, Cut(), Cut.of({stream: 1}), Cut()))
    sink = world.hosts[world.sink]
    if sink.through != sink.acknowledged:
        ready = replace(world, hosts={**world.hosts, world.sink: replace(sink, acknowledged=sink.through)})
        yield "sink acknowledges", ready.step(world.sink, e.Acknowledge())
    for name in world.replicas:
        replica = world.replicas[name]
        partner = replica.place.partner
        if name not in world.down and partner in world.down and replica.role == "secondary" and not replica.stuck:
            yield f"take over: {name}", world.step(name, e.TakeOver())
    if not any(world.channels.values()):
        yield from at_leisure(world)


def at_leisure(world: World) -> Iterator[Move]:
    """What heartbeats bring about when nothing else is under way."""
    for name, replica in world.replicas.items():
        partner = str(replica.place.partner)
        if name in world.down or not replica.place.paired or replica.stuck:
            continue
        if replica.role == "primary":
            for other in replica.place.neighbours:
                if other not in world.down and world.replicas[other].known[replica.place.node] > replica.epoch:
                    yield f"{other} hears {name}", world.step(other, e.Delivered(m.Heartbeat(name, replica.epoch, primary=True)))
        elif partner not in world.down and world.replicas[partner].role == "secondary" and replica.place.index == 0:
            above = max(replica.epoch, world.replicas[partner].epoch)
            yield f"take over: {name}, nobody leads", world.step(name, e.TakeOver(above))


def faults(world: World, crashable: set[str]) -> Iterator[Move]:
    budget = dict(world.budget)

    def paid(kind: str) -> World:
        return replace(world, budget=tuple(sorted({**budget, kind: budget[kind] - 1}.items())))

    if budget.get("crash"):
        for name in crashable - world.down:
            into = {link: waiting for link, waiting in paid("crash").channels.items() if link[1] != name}
            gone = replace(paid("crash"), down=world.down | {name}, channels=into, keys={**world.keys, name: 0})
            yield f"crash of {name}", gone
            silent = {link: waiting for link, waiting in into.items() if link[0] != name}
            if silent != into:
                yield f"crash of {name}, nothing it sent arrives", replace(gone, channels=silent)
    if budget.get("suspect"):
        for name, replica in world.replicas.items():
            if name not in world.down and replica.role == "secondary" and replica.place.partner not in world.down:
                yield f"take over: {name}, wrongly", paid("suspect").step(name, e.TakeOver())
    if budget.get("cut"):
        for one, other in {tuple(sorted(link)) for link, waiting in world.channels.items() if waiting}:
            if not world.down & {one, other}:
                after = replace(paid("cut"), channels={**world.channels, (one, other): (), (other, one): ()})
                after = after.step(one, e.Reconnected(other)).step(other, e.Reconnected(one))
                yield f"cut between {one} and {other}", after
    if budget.get("back"):
        for name in world.down:
            node, index = name.split(".")
            replica, host = Replica(Place(world.topology, node, int(index)), fresh=True), empty(world.operators[node])
            after = paid("back")
            after = replace(after, down=world.down - {name}, replicas={**after.replicas, name: replica}, hosts={**after.hosts, name: host})
            after = after.step(name, e.Started())
            for other in replica.place.neighbours:
                if other not in after.down:
                    after = after.step(other, e.Reconnected(name))
            yield f"{name} is back", after
    if budget.get("copy"):
        for name, replica in world.replicas.items():
            if name not in world.down and replica.role == "primary" and replica.place.standby.passive and replica.place.paired:
                yield f"copy by {name}", paid("copy").step(name, e.CopyNow())
