"""Pairs of replicas, one or two in a row, between S, which makes rows, and D, which wants results, as one value.

The replicas are those of the simulator (`kigen_lab.simulate.standby.virtual_replica`), which drive the parts that run
on real nodes. A move gives another chain. Selection keeps nothing: inputs are trimmed when results are delivered, and
gap rows come up. Differences remembers the last tuple. Passive pairs are in `passive_pair`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace

from kigen_lab.simulate.standby.virtual_queue import END, GAP, SELF, VirtualQueue, find_watermarks
from kigen_lab.simulate.standby.virtual_replica import Files, VirtualReplica
from protocol.passive_pair import PassivePair

from kigen.replicas.replica_names import replica_name
from kigen.replicas.server_choice import ServerStatus
from kigen.replicas.standby_kind import LEADS_ON_S, Acks, Alone, StandbyKind, asks_anew

NODES = ("n", "m")
Move = tuple[str, "Chain"]


@dataclass(frozen=True)
class Work:
    """An operator between two batches: the tuples of a step that came before its watermark, and the last tuple."""

    memory: bool
    modulus: int = 2
    pending: tuple[int, ...] = ()
    last: int = 0

    def step(self, rows: list[int]) -> tuple[Work, int | None, list[int]]:
        pending, last, jump, results = list(self.pending), self.last, None, list[int]()
        for row in rows:
            if row <= GAP:
                pending, jump, results = [], GAP - row, []
            elif row < 0:
                results += [*sorted(pending), row]
                pending = []
            elif self.memory:
                pending.append(100 + row * 10 + last % 10)
                last = row
            elif row % self.modulus == 0:
                pending.append(row)
        return replace(self, pending=tuple(pending), last=last), jump, results


@dataclass
class Chain:
    script: tuple[int, ...]
    source: VirtualQueue
    pairs: tuple[tuple[VirtualReplica, VirtualReplica], ...]
    sink: VirtualReplica
    passive: dict[int, PassivePair] = field(default_factory=dict)  # by the place of the pair
    budget: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def over(script: tuple[int, ...], nodes: list[tuple[StandbyKind, bool]], **budget: int) -> Chain:
        """`nodes`: of each pair, the kind of its standby, and whether it has a memory."""
        names = NODES[: len(nodes)]
        queues = [
            VirtualQueue.read_by(name, replica_name(name, 1), required=kind.required(name))
            for name, (kind, _) in zip(names, nodes, strict=True)
        ]
        queues.append(VirtualQueue.read_by("d"))
        queues[0].clients.open_producer("main", None, "tuples", None)
        pairs, passive = [], {}
        for place, (name, (kind, memory)) in enumerate(zip(names, nodes, strict=True)):
            made = []
            for index in range(2):
                output = queues[place + 1].copy()
                output.clients.open_producer(SELF, None, "batches", None)
                files = Files(VirtualQueue.read_by(SELF), output, Work(memory, 2 << place))
                made.append(VirtualReplica(replica_name(name, index), kind, 2 if place else 1, files, find_watermarks))
            pairs.append((made[0], made[1]))
            if kind.acks is Acks.COPIED:
                passive[place] = PassivePair()
        files = Files(VirtualQueue.read_by("user"), VirtualQueue.read_by(), Work(False))
        sink = VirtualReplica("d", Alone(), 2, files, find_watermarks)
        return Chain(script, queues[0], tuple(pairs), sink, passive, tuple(sorted(budget.items())))

    @property
    def replicas(self) -> list[VirtualReplica]:
        return [replica for pair in self.pairs for replica in pair]

    def place(self, name: str) -> int:
        return len(self.pairs) if name == "d" else NODES.index(name.partition(".")[0])

    def named(self, name: str) -> VirtualReplica:
        return self.sink if name == "d" else self.pairs[self.place(name)][name.endswith(".1")]

    def servers(self, name: str) -> list[tuple[VirtualQueue, bool]]:
        """Lists the servers of the upstream node, and whether they serve."""
        place = self.place(name)
        if place == 0:
            return [(self.source, True)]
        pair = self.passive.get(place - 1)
        return [
            (one.output, one.up and (pair is None or pair.leads(index)))
            for index, one in enumerate(self.pairs[place - 1])
        ]

    def readers(self, place: int) -> list[VirtualReplica]:
        return [self.sink] if place + 1 == len(self.pairs) else list(self.pairs[place + 1])

    def followers(self, place: int, index: int) -> frozenset[str]:
        """Names the readers that follow a replica of a pair."""
        return frozenset(one.name for one in self.readers(place) if one.units is not None and one.choice.index == index)

    def copy(self) -> Chain:
        pairs = tuple((one.copy(), other.copy()) for one, other in self.pairs)
        passive = {place: pair.copy() for place, pair in self.passive.items()}
        return replace(self, source=self.source.copy(), pairs=pairs, sink=self.sink.copy(), passive=passive)

    def key(self) -> tuple[object, ...]:
        passive = tuple(pair.key() for pair in self.passive.values())
        return self.source.key(), *(one.key() for one in self.replicas), self.sink.key(), passive, self.budget

    def decided(self) -> Chain:
        """Begins after the passive pairs have found their leaders."""
        for place, pair in self.passive.items():
            pair.decide(self, place)
        return self

    # --- what always holds, and what holds in the end ---------------------------------------------------------------

    @property
    def expected(self) -> list[list[int]]:
        """Lists the undisturbed results of each pair."""
        rows, found = list(self.script), list[list[int]]()
        for one, _ in self.pairs:
            work = one.files.operator
            assert isinstance(work, Work)
            rows = Work(work.memory, work.modulus).step(rows)[2]
            found.append(rows)
        return found

    def check(self) -> None:
        for pair, rows in zip(self.pairs, self.expected, strict=True):
            for one in pair:
                start, end = one.output.start, one.output.end
                assert one.output.rows == rows[start:end], f"{one.name} has {one.output.rows} at {start} of {rows}"
        expected, got = self.expected[-1], self.sink.input.rows
        assert got == expected[: len(got)], f"D has {got} of {expected}"

    def check_at_rest(self) -> None:
        """If the stream has no end, the acks of the leader count."""
        self.check()
        if END not in self.script:
            assert self.sink.position == len(self.expected[-1])
            for place, pair in enumerate(self.pairs):
                for server, _ in self.servers(pair[0].name) if pair[0].kind.acks is Acks.DELIVERED else ():
                    leaders = [one.name for index, one in enumerate(pair) if self.followers(place, index)]
                    required = server.clients.required
                    assert required == leaders, f"acks of {required} count, {leaders} lead"
            return
        assert self.sink.input.ended, f"D has {self.sink.input.rows}"
        assert all(any(one.over for one in pair) for pair in self.pairs)
        assert not self.source.rows, f"S keeps {self.source.rows}"

    # --- moves ------------------------------------------------------------------------------------------------------

    def moves(self) -> Iterator[Move]:
        if self.source.end < len(self.script):
            yield self._moved("S makes a row", Chain._make)
        for one in [*self.replicas, self.sink]:
            if one.up:
                yield from self._following(one)
            elif not one.over:
                yield self._moved(f"{one.name} is back", lambda w, name=one.name: w._back(name))
        for one in self.replicas:
            if one.up:
                yield from self._working(one)
        for place, pair in self.passive.items():
            for name, act in pair.moves(self, place):
                yield self._moved(name, act)

    def _following(self, me: VirtualReplica) -> Iterator[Move]:
        name, servers, index = me.name, self.servers(me.name), me.choice.index
        if self._rests(me):
            return
        (server, up), others = servers[index], [other for other in range(len(servers)) if other != index]
        if me.units is None:
            if up:
                yield self._moved(f"{name} follows", lambda w: w.named(name).follow(w.servers(name)[index][0]))
            elif any(self._reached(name, other) for other in others):
                yield self._moved(f"{name} turns", lambda w: w.named(name).lost(answered=False))
        else:
            if self._offers(me, server) and me.would_take(server):
                yield self._moved(f"{name} takes rows", lambda w: w.named(name).take(w.servers(name)[index][0]))
            if me.kind.acks is Acks.APPENDED and server.clients.readers[name].ack < me.position:
                yield self._moved(f"{name} acknowledges", lambda w: w.servers(name)[index][0].ack(name, me.position))
            if me.asked_as_leader and me.counts_by_role and name not in server.clients.required:
                yield self._moved(
                    f"{name} says that it leads", lambda w: w.named(name).require(w.servers(name)[index][0])
                )
            if self._would_join(me):
                yield self._moved(f"{name} joins others", lambda w: w.named(name).lost())
        for other in others:
            if servers[other][1] and me.has_report_for(servers[other][0]):
                yield self._moved(
                    f"{name} tells the other", lambda w, at=other: w.named(name).report_to(w.servers(name)[at][0])
                )

    def _reached(self, name: str, index: int) -> bool:
        """Whether an upstream process runs. A passive follower runs, and notices that readers ask, but serves no rows."""
        return self.pairs[self.place(name) - 1][index].up

    def _rests(self, me: VirtualReplica) -> bool:
        """A passive follower reads nothing."""
        pair = self.passive.get(self.place(me.name))
        return me is not self.sink and pair is not None and not pair.leads(int(me.name.endswith(".1")))

    def _offers(self, me: VirtualReplica, server: VirtualQueue) -> bool:
        """Not to a replica whose other one has delivered everything: it will be ended."""
        assert me.units is not None
        over = me is not self.sink and any(one.over for one in self.pairs[self.place(me.name)])
        return not (over and me.units.next < server.start)

    def _would_join(self, me: VirtualReplica) -> bool:
        place, index, choice = self.place(me.name) - 1, me.choice.index, copy(me.choice)
        if place < 0 or not self.servers(me.name)[1 - index][1]:
            return False
        here, there = (ServerStatus(i, False, self.followers(place, i)) for i in (index, 1 - index))
        return choice.should_join_others(here, [there])

    def _working(self, me: VirtualReplica) -> Iterator[Move]:
        name, place = me.name, self.place(me.name)
        if self._rests(me):
            return
        if me.files.begun is not None and me.written:
            yield self._moved(f"{name} commits", lambda w: w.named(name).commit())
        elif me.has_work:
            yield self._moved(f"{name} works", lambda w: w.named(name).write())
        followed = bool(self.followers(place, int(name.endswith(".1"))))
        if place not in self.passive and (me.leading.leads != followed or me.has_delivered()):
            yield self._moved(f"{name} looks around", lambda w: w._look(name, followed))
        if me.delivered_everything:
            yield self._moved(f"{name} ends", lambda w: w._end(name))

    def faults(self) -> Iterator[Move]:
        for kind, left in self.budget:
            if left:
                paid = replace(self, budget=tuple((k, n - (k == kind)) for k, n in self.budget))
                for name, act in self._faults(kind):
                    yield paid._moved(name, act)

    def _faults(self, kind: str) -> Iterator[tuple[str, Callable[[Chain], object]]]:
        if kind == "kill":
            for one in self.replicas:
                if one.up:
                    yield f"{one.name} is killed", lambda w, name=one.name: w._kill(name)
                    if one.files.begun is None and one.has_work and not self._rests(one):
                        yield (
                            f"{one.name} is killed while it writes",
                            lambda w, name=one.name: w._kill(name, writing=True),
                        )
        elif kind == "suspect":
            for one in [*self.replicas, self.sink]:
                several = len(self.servers(one.name)) > 1
                if one.units is not None and several and self._reached(one.name, 1 - one.choice.index):
                    yield f"{one.name} suspects", lambda w, name=one.name: w.named(name).lost()
        elif kind == "cut":
            for one in [*self.replicas, self.sink]:
                if one.units is not None:
                    yield f"cut before {one.name}", lambda w, name=one.name: setattr(w.named(name), "units", None)
        elif kind == "restart":
            yield "S is killed and back", Chain._restart_source
        elif kind == "copy":
            for place, pair in self.passive.items():
                yield from pair.copies(self, place)

    def _moved(self, name: str, act: Callable[[Chain], object]) -> Move:
        after = self.copy()
        act(after)
        return name, after

    # --- what happens to more than one ------------------------------------------------------------------------------

    def _make(self) -> None:
        end = self.source.end
        self.source.append([self.script[end]], end, "main", end + 1 == len(self.script))

    def _look(self, name: str, followed: bool) -> None:
        me = self.named(name)
        changed, delivered = me.look(0.0 if followed else LEADS_ON_S)
        if changed and asks_anew(me.kind):
            me.units = None
        if delivered and me.units is not None:
            me.send_delivered(self.servers(name)[me.choice.index][0])

    def _end(self, name: str) -> None:
        me = self.named(name)
        for server, up in self.servers(name):
            for replica in (me.node, replica_name(me.node, 1)) if up else ():
                if replica in server.clients.readers:
                    server.ack(replica, me.position)
        me.over, me.up, me.units = True, False, None
        self._gone(name)

    def _back(self, name: str) -> None:
        self.named(name).up = True
        if self.place(name) in self.passive:
            self.passive[self.place(name)].back(int(name.endswith(".1")))

    def _kill(self, name: str, writing: bool = False) -> None:
        me = self.named(name)
        if writing:
            me.write(only_jump=True)
        me.killed()
        self.opened(me.output, self.place(name) + 1)
        self._gone(name)

    def opened(self, queue: VirtualQueue, place: int) -> None:
        """A node that opens its queue sets anew whose acks count; the leader downstream has to say so again."""
        if place < len(self.pairs):
            one, _ = self.pairs[place]
            queue.require(one.kind.required(one.name))

    def _gone(self, name: str) -> None:
        self.unfollow(self.place(name), int(name.endswith(".1")))

    def unfollow(self, place: int, index: int) -> None:
        for follower in self.followers(place, index):
            self.named(follower).lost()

    def _restart_source(self) -> None:
        for replica in self.pairs[0]:
            replica.units = None
        self.opened(self.source, 0)
