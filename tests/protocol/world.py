"""A whole small system as one immutable value: replicas with their hosts, and what is under way between them. A move
gives another world.

Hosts are the reference implementation of what `kigen_lab.simulate.standby.machine.events` asks of a host; they fail
loudly if asked for a tuple they no longer have.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from kigen_lab.simulate.standby.machine import events as e
from kigen_lab.simulate.standby.machine import messages as m
from kigen_lab.simulate.standby.machine.cuts import Cut
from kigen_lab.simulate.standby.machine.replica import Replica
from kigen_lab.simulate.standby.machine.topology import Place, Topology
from protocol.operators import Item, Operator

NOTHING = Cut()


@dataclass(frozen=True)
class Host:
    """What a process holds besides the replica's offsets."""

    operator: Operator
    state: Any
    through: Cut = NOTHING
    kept: tuple[tuple[str, int, Item], ...] = ()  # received, not fed
    queues: tuple[tuple[str, int, tuple[Item, ...]], ...] = ()  # stream, first offset, items
    delivered: tuple[Item, ...] = ()  # a sink's: everything it was fed
    acknowledged: Cut = NOTHING
    notes: tuple[object, ...] = ()  # lost, stuck

    def key(self) -> tuple[object, ...]:
        return (self.state, self.through, self.kept, self.queues, self.delivered, self.acknowledged, self.notes)

    def queue(self, stream: str) -> tuple[int, tuple[Item, ...]]:
        return next(((first, items) for name, first, items in self.queues if name == stream), (0, ()))

    def with_queue(self, stream: str, first: int, items: tuple[Item, ...]) -> Host:
        others = tuple(q for q in self.queues if q[0] != stream)
        return replace(self, queues=tuple(sorted((*others, (stream, first, items)))))

    def range(self, stream: str, first: int, end: int) -> tuple[Item, ...]:
        begin, items = self.queue(stream)
        assert first >= begin, f"{stream} [{first}, {end}) was asked for, but it is trimmed up to {begin}"
        assert end <= begin + len(items), (
            f"{stream} [{first}, {end}) was asked for, but it ends at {begin + len(items)}"
        )
        return items[first - begin : end - begin]

    def append(self, stream: str, items: list[Item]) -> Host:
        first, old = self.queue(stream)
        return self.with_queue(stream, first, (*old, *items))

    def needed(self) -> Cut:
        rests = self.operator.needed(self.state)
        return Cut.of({**dict(self.through.items), **rests})


@dataclass(frozen=True)
class World:
    topology: Topology
    operators: dict[str, Operator]
    sources: dict[str, tuple[str, tuple[Item, ...]]]  # node -> its stream, its items
    sink: str
    replicas: dict[str, Replica]
    hosts: dict[str, Host]
    keys: dict[str, int]
    channels: dict[tuple[str, str], tuple[tuple[m.Message, Any, int], ...]] = field(default_factory=dict)
    down: frozenset[str] = frozenset()
    budget: tuple[tuple[str, int], ...] = ()
    steps: dict[Any, Any] = field(default_factory=dict)
    listened: frozenset[tuple[str, int, str]] = frozenset()  # (node, epoch, whose data a reader took)

    def key(self) -> int:
        under_way = frozenset(
            (link, tuple(one[2] for one in waiting)) for link, waiting in self.channels.items() if waiting
        )
        return hash((tuple(self.keys.values()), under_way, self.down, self.budget))

    def host(self, name: str) -> Host:
        return self.hosts[name]

    def step(self, name: str, event: e.Event, payload: Any = None) -> World:
        """What a replica does depends on itself and the event alone, so each pair is worked out once."""
        asked = (name, self.keys[name], event, payload)
        if asked not in self.steps:
            self.steps[asked] = self._work_out(name, event, payload)
        replica, host, key, sent, took = self.steps[asked]
        channels = dict(self.channels)
        for to, message in sent:
            if to not in self.down:
                channels[name, to] = (*channels.get((name, to), ()), message)
        return replace(
            self,
            replicas={**self.replicas, name: replica},
            hosts={**self.hosts, name: host},
            keys={**self.keys, name: key},
            channels=channels,
            listened=self.listened | took if not took <= self.listened else self.listened,
        )

    def _work_out(self, name: str, event: e.Event, payload: Any) -> Any:
        replica, host = self.replicas[name].clone(), self.hosts[name]
        sent: list[tuple[str, tuple[m.Message, Any, int]]] = []
        took: set[tuple[str, int, str]] = set()
        todo = [event]
        while todo:
            now = todo.pop(0)
            for action in replica.handle(now):
                if isinstance(action, e.Send):
                    message = (action.message, _payload(host, action.message))
                    sent.append((action.to, (*message, hash(message))))
                elif isinstance(action, e.TakeCopy):
                    todo.append(e.Copied(action.generation, host.through))
                elif isinstance(action, e.Feed):
                    host, answer = _feed(host, replica, action, name == self.sink)
                    todo.append(answer)
                else:
                    host = _obey(host, action, now, payload)
                if isinstance(action, e.Keep) and isinstance(now, e.Delivered):
                    sender = now.message.sender
                    took.add((sender.split(".")[0], now.message.epoch, sender))
        return replica, host, hash((replica.key(), host.key())), sent, frozenset(took)


def _payload(host: Host, message: m.Message) -> Any:
    if isinstance(message, m.Data):
        return host.range(message.stream, message.first, message.end) if message.first < message.end else ()
    if isinstance(message, m.State):
        return host.state, tuple(
            (stream, message.kept[stream], host.range(stream, message.kept[stream], first + len(items)))
            for stream, first, items in host.queues
        )
    return None


def _feed(host: Host, replica: Replica, feed: e.Feed, sink: bool) -> tuple[Host, e.Produced]:
    state, results, delivered = host.state, [], host.delivered
    fed = {(s, o): item for s, o, item in host.kept}
    for offset in range(feed.first, feed.end):
        item = fed[feed.stream, offset]
        state, more = host.operator.feed(state, feed.stream, offset, item)
        results += more
        if sink:
            delivered = (*delivered, item)
    kept = tuple(one for one in host.kept if not (one[0] == feed.stream and one[1] < feed.end))
    through = Cut.of({**dict(host.through.items), feed.stream: max(feed.end, host.through[feed.stream])})
    host = replace(host, state=state, kept=kept, through=through, delivered=delivered)
    counts = {}
    if not feed.silent:
        for stream in replica.outputs.queues:
            host = host.append(stream, results)
            counts[stream] = len(results)
    return host, e.Produced(feed.generation, through, Cut.of(counts), host.needed())


def _obey(host: Host, action: e.Action, event: e.Event, payload: Any) -> Host:
    if isinstance(action, e.Keep):
        assert isinstance(event, e.Delivered)
        assert isinstance(event.message, m.Data)
        begin = event.message.first
        new = tuple((action.stream, offset, payload[offset - begin]) for offset in range(action.first, action.end))
        old = tuple(one for one in host.kept if not (one[0] == action.stream and one[1] >= action.first))
        return replace(host, kept=(*old, *new))
    if isinstance(action, e.Trim):
        first, items = host.queue(action.stream)
        return host.with_queue(action.stream, max(first, action.before), items[max(0, action.before - first) :])
    if isinstance(action, e.Reset):
        host = replace(host, state=host.operator.start, through=action.inputs)
        for stream, first, items in host.queues or tuple((s, 0, ()) for s, _ in action.outputs):
            at = action.outputs[stream]
            host = (
                host.with_queue(stream, at, ())
                if at > first + len(items) or at < first
                else host.with_queue(stream, first, items[: at - first])
            )
        return host
    if isinstance(action, e.Load):
        state, queues = payload
        return replace(host, state=state, through=action.mark.through, kept=(), queues=queues)
    if isinstance(action, e.Lost | e.Stuck):
        return replace(host, notes=(*host.notes, action))
    return host


def build(
    topology: Topology,
    operators: dict[str, Operator],
    sources: dict[str, tuple[str, list[Item]]],
    sink: str,
    **budget: int,
) -> World:
    nodes = sorted({s.producer for s in topology.streams} | {r for s in topology.streams for r in s.readers})
    replicas, hosts = {}, {}
    for node in nodes:
        for index, name in enumerate(topology.replicas(node)):
            replicas[name] = Replica(Place(topology, node, index))
            hosts[name] = empty(operators[node])
    keys = {name: hash((replicas[name].key(), hosts[name].key())) for name in replicas}
    given = {node: (stream, tuple(items)) for node, (stream, items) in sources.items()}
    return World(topology, operators, given, sink, replicas, hosts, keys, budget=tuple(sorted(budget.items())))


def empty(operator: Operator) -> Host:
    return Host(operator, operator.start)
