"""What may happen to the machines of `kigen_lab.simulate.standby.machine`, in every order.

Moves: a message at the head of a link arrives; a source makes its next tuple; a sink acknowledges. Faults, as far as
the budget goes: `crash` of a replica (what it sent may still arrive, or not), `suspect`: a takeover though the primary
lives (it was only slow), `cut` of a link with all that was under way on it, `back`: a crashed replica begins anew
without state, `copy`: passive standby's copy. A replica whose primary is down takes over at some time. A world without
moves but faults is at rest: there the whole output must have come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kigen_lab.simulate.standby.machine import events as e
from kigen_lab.simulate.standby.machine import messages as m
from kigen_lab.simulate.standby.machine.cuts import Cut
from kigen_lab.simulate.standby.machine.replica import Replica
from kigen_lab.simulate.standby.machine.topology import Place
from protocol.search import Found, Search
from protocol.world import World, empty

Move = tuple[object, World]


def explore(
    first: World, always: Callable[[World], None], at_rest: Callable[[World], None], crashable: set[str]
) -> Found:
    return _search(first, always, at_rest, crashable).explore()


def wander(
    world: World, always: Callable[[World], None], at_rest: Callable[[World], None], crashable: set[str], seed: int
) -> int:
    return _search(world, always, at_rest, crashable).wander(seed)


def _search(
    first: World, always: Callable[[World], None], at_rest: Callable[[World], None], crashable: set[str]
) -> Search[World]:
    def both_down(world: World) -> bool:
        return any({f"{node}.0", f"{node}.1"} <= world.down for node in world.topology.standby)

    return Search(first, normal, lambda world: faults(world, crashable), always, at_rest, both_down)


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
                    yield (
                        f"{other} hears {name}",
                        world.step(other, e.Delivered(m.Heartbeat(name, replica.epoch, primary=True))),
                    )
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
            after = replace(
                after,
                down=world.down - {name},
                replicas={**after.replicas, name: replica},
                hosts={**after.hosts, name: host},
            )
            after = after.step(name, e.Started())
            for other in replica.place.neighbours:
                if other not in after.down:
                    after = after.step(other, e.Reconnected(name))
            yield f"{name} is back", after
    if budget.get("copy"):
        for name, replica in world.replicas.items():
            if (
                name not in world.down
                and replica.role == "primary"
                and replica.place.standby.passive
                and replica.place.paired
            ):
                yield f"copy by {name}", paid("copy").step(name, e.CopyNow())
