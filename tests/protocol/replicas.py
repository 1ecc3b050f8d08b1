"""Pairs of replicas, one or two in a row, between S, who makes rows, and D, who wants results: all that is decided is
decided by the parts that run on real nodes (ProducersAndReaders, Steps, HandAcks, Leading, Whom); queues are lists, a micro-batch a
function, a connection is there or not.

A row is a number: a tuple (0 and above), a mark (-1), the mark of the end (-2), or what stands for a hole (-10 less the
results before it). Selection keeps nothing: inputs are let go when results are delivered, and holes come up.
Differences keeps the last tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace

import pyarrow as pa

from kigen.links import Following
from kigen.queue import ENDED
from kigen.queue.producers_and_readers import ProducersAndReaders
from kigen.queue.record import TUPLES, Record
from kigen.replicas.lead_tracking import LEADS_ON_S, Leading
from kigen.replicas.relay_units import HandAcks, Steps, Unit, reached
from kigen.replicas.server_choice import Seen, Whom

MARK, END, HOLE = -1, -2, -10
SELF, _RELAY = "spark", "relay"
NODES = ("n", "m")
Move = tuple[str, "Chain"]


def batch(rows: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"row": pa.array(rows, pa.int64())})


def numbers(batches: list[pa.RecordBatch]) -> list[int]:
    return [row for b in batches for row in b.column(0).to_pylist()]


def marks(rows: pa.RecordBatch) -> list[int]:
    return [place for place, row in enumerate(rows.column(0).to_pylist()) if row < 0]


def hole(note: str) -> pa.RecordBatch:
    return batch([HOLE - int(note or 0)])


@dataclass
class Line:
    """A queue: `ProducersAndReaders`, and the rows that are kept."""

    parties: ProducersAndReaders
    rows: list[int] = field(default_factory=list)

    @staticmethod
    def read_by(*readers: str, required: tuple[str, ...] | None = None) -> Line:
        line = Line(ProducersAndReaders())
        for reader in readers:
            line.parties.open_reader(reader, None, None)
        line.parties.required = sorted(readers if required is None else required)
        return line

    @property
    def ended(self) -> bool:
        return self.parties.progress_us == ENDED

    def append(self, rows: list[int], number: int, producer: str, ended: bool) -> None:
        parties, who = self.parties, self.parties.producers[producer]
        old = parties.old(who, number, len(rows))
        progress_us = ENDED if ended else who.progress_us
        if old == len(rows):
            who.next = max(who.next, number + 1) if who.counts == "batches" else who.next
            who.progress_us = max(who.progress_us, progress_us)
            return
        self.rows += rows[old:]
        count, sequence = len(rows) - old, number + old
        parties.appended(
            Record(TUPLES, 0, 0, False, 0, parties.end, count, who.number, who.epoch, sequence, progress_us)
        )
        self.trim(parties.trim)

    def skip(self, offset: int) -> None:
        self.rows += [0] * max(0, offset - self.parties.end)
        self.trim(lambda: self.parties.skip(self.parties.producers[SELF], offset))

    def ack(self, reader: str, offset: int, note: str = "") -> None:
        if self.parties.ack(reader, offset, None, note):
            self.trim(self.parties.trim)

    def require(self, readers: list[str]) -> None:
        self.parties.required = sorted(readers)
        self.trim(self.parties.trim)

    def trim(self, by: Callable[[], bool]) -> None:
        start = self.parties.start
        by()
        del self.rows[: self.parties.start - start]

    def read(self, offset: int, at_least: int = 1, skip_trimmed: bool = False) -> tuple[int, list[int]] | None:
        """Where it begins, and what is there; nothing unless it is `at_least` so much, or no more will come. None: it
        is not told."""
        start, first = self.parties.start, self.parties.beginning(offset)
        assert offset >= start or skip_trimmed, f"offset {offset} is not kept any more, {start} is the first"
        if first is None:
            return None
        rows = self.rows[first - start :]
        whole = len(rows) if self.ended else len(rows) // at_least * at_least
        return first, rows[:whole]

    def copy(self) -> Line:
        parties = copy(self.parties)
        parties.producers = {name: copy(p) for name, p in parties.producers.items()}
        parties.readers = {name: copy(r) for name, r in parties.readers.items()}
        return Line(parties, list(self.rows))

    def key(self) -> tuple[object, ...]:
        parties = self.parties
        producers = tuple((name, p.next, p.progress_us) for name, p in parties.producers.items())
        readers = tuple((name, r.ack, r.note) for name, r in parties.readers.items())
        return parties.start, parties.end, parties.note, producers, readers, tuple(parties.required), tuple(self.rows)


@dataclass(frozen=True)
class Work:
    """An operator between two batches: what of a step came before its mark, and the last tuple."""

    forgetful: bool
    modulus: int = 2
    pending: tuple[int, ...] = ()
    last: int = 0

    def over(self, rows: list[int]) -> tuple[Work, int | None, list[int]]:
        """Afterwards; to which number of results there was a jump; the results behind it."""
        pending, last, jump, results = list(self.pending), self.last, None, list[int]()
        for row in rows:
            if row <= HOLE:
                pending, jump, results = [], HOLE - row, []
            elif row < 0:
                results += [*sorted(pending), row]
                pending = []
            elif not self.forgetful:
                pending.append(100 + row * 10 + last % 10)
                last = row
            elif row % self.modulus == 0:
                pending.append(row)
        return replace(self, pending=tuple(pending), last=last), jump, results


@dataclass
class Replica:
    """`worked`, `unit`, `work`, `begun` and the queues are files; the rest is gone with the process."""

    name: str
    how: Following
    servers: int
    given: Line
    made: Line
    work: Work
    worked: int = 0
    unit: int = -1
    begun: int | None = None  # the end of a batch that is under way
    written: bool = False
    up: bool = True
    over: bool = False
    steps: Steps | None = None  # while it follows
    eager: bool = False  # as it asked when it began to follow

    def __post_init__(self) -> None:
        self.acks, self.leading, self.whom = HandAcks(marks), Leading(False), Whom(self.name, self.servers)

    @property
    def node(self) -> str:
        return self.name.partition(".")[0]

    @property
    def there(self) -> int:
        relay = self.given.parties.producers.get(_RELAY)
        return 0 if relay is None else reached(relay.next, relay.counts == "batches")

    @property
    def delivered(self) -> bool:
        """There is something that it could acknowledge."""
        return (
            self.how.by_hand and bool(self.leading._commits) and self.leading._commits[0][1] <= self.made.parties.start
        )

    @property
    def done(self) -> bool:
        worked = self.given.ended and self.begun is None and self.worked == self.given.parties.end
        return worked and self.made.ended and not self.made.rows

    def copy(self) -> Replica:
        made = copy(self)
        made.given, made.made = self.given.copy(), self.made.copy()
        made.steps, made.acks, made.leading, made.whom = (
            copy(self.steps),
            copy(self.acks),
            copy(self.leading),
            copy(self.whom),
        )
        made.acks._known, made.leading._commits = copy(self.acks._known), copy(self.leading._commits)
        return made

    def killed(self) -> None:
        self.up, self.written, self.steps, self.eager = False, False, None, False
        self.__post_init__()

    def lost(self) -> None:
        """Who was followed is gone, or taken for gone."""
        self.steps = None
        self.whom.left(True)

    def key(self) -> tuple[object, ...]:
        acks, leading = (tuple(self.acks._known), self.acks.last), (self.leading.leads, tuple(self.leading._commits))
        files = (self.given.key(), self.made.key(), self.work, self.worked, self.unit, self.begun)
        return (
            *files,
            self.written,
            self.up,
            self.over,
            following_key(self.steps),
            self.whom.at,
            self.eager,
            acks,
            leading,
        )

    # --- what it does of itself -------------------------------------------------------------------------------------

    @property
    def to_do(self) -> list[int]:
        kept = self.given.read(self.worked)
        assert kept is not None
        return kept[1]

    def write(self, only_jump: bool = False) -> None:
        self.begun = self.given.parties.end if self.begun is None else self.begun
        _, jump, results = self.work.over(self.to_do[: self.begun - self.worked])
        if jump is not None:
            self.made.skip(jump)
        if results and not only_jump:
            self.made.append(results, self.unit + 1, SELF, results[-1] == END)
        self.written = True

    def commit(self) -> None:
        assert self.begun is not None
        self.work, _, results = self.work.over(self.to_do[: self.begun - self.worked])
        self.unit += bool(results)
        self.worked, self.begun, self.written = self.begun, None, False
        self.given.ack(SELF, self.worked)
        if self.how.by_hand:
            self.leading.committed(self.worked, self.made.parties.end)

    def append(self, unit: Unit, ended: bool) -> None:
        if unit.rows:
            self.given.append(
                numbers(unit.batches), unit.end if self.how.skipping else unit.first, _RELAY, ended and unit.complete
            )
            if self.how.by_hand:
                self.acks.appended(unit, self.given.parties.end)
        elif unit.complete and ended:
            self.given.parties.producers[_RELAY].progress_us = ENDED

    # --- what it does with a server ---------------------------------------------------------------------------------

    def follow(self, server: Line) -> None:
        how = self.how
        server.parties.open_reader(self.name, None, None)
        self.given.parties.open_producer(_RELAY, None, "batches" if how.skipping else "tuples", None)
        self.steps, self.eager = Steps(self.there, marks, hole), self.leading.leads
        if how.by_hand and self.eager:
            self.say(server)

    def say(self, server: Line) -> None:
        self.require(server)
        there, note = self.acks.last
        if there:
            server.ack(self.name, there, note)

    def require(self, server: Line) -> None:
        """By hand, the leader's acks count, and not those of its other replica."""
        server.require([name for name in server.parties.required if name.partition(".")[0] != self.node] + [self.name])

    def unsaid(self, server: Line) -> bool:
        """Something is to be told to a server that is not followed."""
        known = server.parties.readers.get(self.name)
        if self.how.by_hand:
            news = known is not None and known.ack < self.acks.last[0]
            return self.leading.leads and (news or self.name not in server.parties.required)
        return known is not None and known.ack < self.there

    def tell(self, server: Line) -> None:
        if self.how.by_hand:
            self.say(server)
        else:
            server.ack(self.name, self.there)

    def offered(self, server: Line) -> tuple[int, list[int]] | None:
        assert self.steps is not None
        return server.read(
            self.steps.next, 1 if self.how.batch is None or self.eager else self.how.batch, self.how.skipping
        )

    def news(self, server: Line) -> bool:
        assert self.steps is not None
        offered = self.offered(server)
        if offered is None:
            return True  # to leave
        first, rows = offered
        waits = bool(self.steps._waiting)
        all_of_it = self.steps.next == server.parties.end
        return (
            bool(rows) or first > self.steps.next or (server.ended and all_of_it and not self.given.ended and not waits)
        )

    def take(self, server: Line) -> None:
        assert self.steps is not None
        offered = self.offered(server)
        if offered is None:
            self.steps = None
            self.whom.left(False)
            return
        first, rows = offered
        ended = server.ended and first + len(rows) == server.parties.end
        self.append(self.steps.came(first, server.parties.note or "", [batch(rows)] if rows else []), ended)


def following_key(steps: Steps | None) -> object:
    return None if steps is None else (steps._first, tuple(numbers(steps._waiting)))


@dataclass
class Chain:
    """D is a replica, too, of which there is one, and which does no work."""

    script: tuple[int, ...]
    source: Line
    pairs: tuple[tuple[Replica, Replica], ...]
    sink: Replica
    budget: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def over(script: tuple[int, ...], kinds: list[tuple[bool, int | None]], **budget: int) -> Chain:
        """`kinds`: of each pair, whether it keeps nothing, and its batch."""
        names = [(node, f"{node}.1") for node in NODES[: len(kinds)]]
        readers = [
            Line.read_by(*pair, required=pair[:1] if kind[0] else pair) for pair, kind in zip(names, kinds, strict=True)
        ]
        readers.append(Line.read_by("d"))
        readers[0].parties.open_producer("main", None, "tuples", None)
        pairs = []
        for place, ((forgetful, at_once), pair) in enumerate(zip(kinds, names, strict=True)):
            how, work = Following("none", at_once, skipping=forgetful, by_hand=forgetful), Work(forgetful, 2 << place)
            made = [readers[place + 1].copy() for _ in pair]
            for line in made:
                line.parties.open_producer(SELF, None, "batches", None)
            servers = 2 if place else 1
            one, other = (
                Replica(name, how, servers, Line.read_by(SELF), line, work)
                for name, line in zip(pair, made, strict=True)
            )
            pairs.append((one, other))
        sink = Replica("d", Following(), 2, Line.read_by("user"), Line.read_by(), Work(True))
        return Chain(script, readers[0], tuple(pairs), sink, tuple(sorted(budget.items())))

    @property
    def replicas(self) -> list[Replica]:
        return [replica for pair in self.pairs for replica in pair]

    def place(self, name: str) -> int:
        return len(self.pairs) if name == "d" else NODES.index(name.partition(".")[0])

    def named(self, name: str) -> Replica:
        return self.sink if name == "d" else self.pairs[self.place(name)][name.endswith(".1")]

    def servers(self, name: str) -> list[tuple[Line, bool]]:
        """Before it, and whether they are up."""
        place = self.place(name)
        return [(self.source, True)] if place == 0 else [(one.made, one.up) for one in self.pairs[place - 1]]

    def followers(self, place: int, at: int) -> frozenset[str]:
        """Of a pair's replica."""
        after = [self.sink] if place + 1 == len(self.pairs) else list(self.pairs[place + 1])
        return frozenset(one.name for one in after if one.steps is not None and one.whom.at == at)

    def copy(self) -> Chain:
        pairs = tuple((one.copy(), other.copy()) for one, other in self.pairs)
        return replace(self, source=self.source.copy(), pairs=pairs, sink=self.sink.copy())

    def key(self) -> tuple[object, ...]:
        return self.source.key(), *(one.key() for one in self.replicas), self.sink.key(), self.budget

    # --- what always holds, and what holds in the end ---------------------------------------------------------------

    @property
    def expected(self) -> list[list[int]]:
        """Of each pair."""
        rows, found = list(self.script), list[list[int]]()
        for one, _ in self.pairs:
            rows = Work(one.work.forgetful, one.work.modulus).over(rows)[2]
            found.append(rows)
        return found

    def check(self) -> None:
        for pair, rows in zip(self.pairs, self.expected, strict=True):
            for one in pair:
                start, end = one.made.parties.start, one.made.parties.end
                assert one.made.rows == rows[start:end], f"{one.name} has {one.made.rows} at {start} of {rows}"
        expected = self.expected[-1]
        assert self.sink.given.rows == expected[: len(self.sink.given.rows)], (
            f"D has {self.sink.given.rows} of {expected}"
        )

    def check_at_rest(self) -> None:
        """If it has no end, whoever leads is whose acks count."""
        self.check()
        if END not in self.script:
            assert self.sink.there == len(self.expected[-1])
            for place, pair in enumerate(self.pairs):
                for server, _ in self.servers(pair[0].name) if pair[0].how.by_hand else ():
                    leaders = [one.name for at, one in enumerate(pair) if self.followers(place, at)]
                    assert server.parties.required == leaders, (
                        f"acks of {server.parties.required} count, {leaders} lead"
                    )
            return
        assert self.sink.given.ended, f"D has {self.sink.given.rows}"
        assert all(any(one.over for one in pair) for pair in self.pairs)
        assert not self.source.rows, f"S keeps {self.source.rows}"

    # --- moves ------------------------------------------------------------------------------------------------------

    def moves(self) -> Iterator[Move]:
        if self.source.parties.end < len(self.script):
            yield self._moved("S makes a row", Chain._make)
        for one in [*self.replicas, self.sink]:
            if one.up:
                yield from self._following(one)
            elif not one.over:
                yield self._moved(f"{one.name} is back", lambda w, name=one.name: setattr(w.named(name), "up", True))
        for one in self.replicas:
            if one.up:
                yield from self._working(one)

    def _following(self, me: Replica) -> Iterator[Move]:
        name, servers = me.name, self.servers(me.name)
        (server, up), others = servers[me.whom.at], [at for at in range(len(servers)) if at != me.whom.at]
        if me.steps is None:
            if up:
                yield self._moved(f"{name} follows", lambda w: w.named(name).follow(w.servers(name)[me.whom.at][0]))
            elif any(servers[at][1] for at in others):
                yield self._moved(f"{name} turns", lambda w: w.named(name).whom.left(False))
        else:
            if self._offers(me, server) and me.news(server):
                yield self._moved(f"{name} takes rows", lambda w: w.named(name).take(w.servers(name)[me.whom.at][0]))
            if me.how.at_once and server.parties.readers[name].ack < me.there:
                yield self._moved(f"{name} acknowledges", lambda w: w.servers(name)[me.whom.at][0].ack(name, me.there))
            if me.how.by_hand and me.eager and me.leading.leads and name not in server.parties.required:
                yield self._moved(
                    f"{name} says that it leads", lambda w: w.named(name).require(w.servers(name)[me.whom.at][0])
                )
            if self._would_join(me):
                yield self._moved(f"{name} joins others", lambda w: w.named(name).lost())
        for at in others:
            if servers[at][1] and me.unsaid(servers[at][0]):
                yield self._moved(
                    f"{name} tells the other", lambda w, at=at: w.named(name).tell(w.servers(name)[at][0])
                )

    def _offers(self, me: Replica, server: Line) -> bool:
        """But for one whose other replica has delivered everything: it will be ended."""
        assert me.steps is not None
        over = me is not self.sink and any(one.over for one in self.pairs[self.place(me.name)])
        return not (over and me.steps.next < server.parties.start)

    def _would_join(self, me: Replica) -> bool:
        place, at, whom = self.place(me.name) - 1, me.whom.at, copy(me.whom)
        if place < 0 or not self.pairs[place][1 - at].up:
            return False
        return whom.elsewhere(
            Seen(at, False, self.followers(place, at)), [Seen(1 - at, False, self.followers(place, 1 - at))]
        )

    def _working(self, me: Replica) -> Iterator[Move]:
        name, place = me.name, self.place(me.name)
        if me.begun is not None and me.written:
            yield self._moved(f"{name} commits", lambda w: w.named(name).commit())
        elif me.begun is not None or me.given.parties.end > me.worked:
            yield self._moved(f"{name} works", lambda w: w.named(name).write())
        followed = bool(self.followers(place, int(name.endswith(".1"))))
        if me.leading.leads != followed or me.delivered:
            yield self._moved(f"{name} looks around", lambda w: w._look(name, followed))
        if me.done:
            yield self._moved(f"{name} ends", lambda w: w._end(name))

    def faults(self) -> Iterator[Move]:
        for kind, left in self.budget:
            if not left:
                continue
            paid = replace(self, budget=tuple((k, n - (k == kind)) for k, n in self.budget))
            if kind == "kill":
                for one in self.replicas:
                    if one.up:
                        yield paid._moved(f"{one.name} is killed", lambda w, name=one.name: w._kill(name))
                        if one.begun is None and one.given.parties.end > one.worked:
                            yield paid._moved(
                                f"{one.name} is killed while it writes",
                                lambda w, name=one.name: w._kill(name, writing=True),
                            )
            elif kind == "suspect":
                for one in [*self.replicas, self.sink]:
                    servers = self.servers(one.name)
                    if one.steps is not None and len(servers) > 1 and servers[1 - one.whom.at][1]:
                        yield paid._moved(f"{one.name} suspects", lambda w, name=one.name: w.named(name).lost())
            elif kind == "cut":
                for one in [*self.replicas, self.sink]:
                    if one.steps is not None:
                        yield paid._moved(
                            f"cut before {one.name}", lambda w, name=one.name: setattr(w.named(name), "steps", None)
                        )
            elif kind == "restart":
                yield paid._moved("S is killed and back", Chain._restart_source)

    def _moved(self, name: str, act: Callable[[Chain], object]) -> Move:
        after = self.copy()
        act(after)
        return name, after

    # --- what happens to more than one ------------------------------------------------------------------------------

    def _make(self) -> None:
        end = self.source.parties.end
        self.source.append([self.script[end]], end, "main", end + 1 == len(self.script))

    def _look(self, name: str, followed: bool) -> None:
        me = self.named(name)
        if me.leading.look(0.0 if followed else LEADS_ON_S) and (me.how.batch is not None or me.how.by_hand):
            me.steps = None
        if me.how.by_hand:
            done = me.leading.delivered(me.made.parties.start)
            if done is not None and me.acks.done(done[0], str(done[1])) and me.steps is not None:
                self.servers(name)[me.whom.at][0].ack(name, *me.acks.last)

    def _end(self, name: str) -> None:
        me = self.named(name)
        for server, up in self.servers(name):
            for replica in (me.node, f"{me.node}.1") if up else ():
                if replica in server.parties.readers:
                    server.ack(replica, me.there)
        me.over, me.up, me.steps = True, False, None
        self._gone(name)

    def _kill(self, name: str, writing: bool = False) -> None:
        me = self.named(name)
        if writing:
            me.write(only_jump=True)
        me.killed()
        self._opened(me.made, self.place(name) + 1)
        self._gone(name)

    def _opened(self, line: Line, readers: int) -> None:
        """Its node, started again, says anew whose acks count; who leads behind it has to say so again."""
        if readers < len(self.pairs):
            one, other = self.pairs[readers]
            line.require([one.name] if one.how.by_hand else [one.name, other.name])

    def _gone(self, name: str) -> None:
        place, at = self.place(name), int(name.endswith(".1"))
        for follower in self.followers(place, at):
            self.named(follower).lost()

    def _restart_source(self) -> None:
        for replica in self.pairs[0]:
            replica.steps = None
        self._opened(self.source, 0)
