"""A pair of replicas between U, who makes rows, and D, who wants results: all that is decided is decided by the parts that run on real
nodes (Parties, Steps, HandAcks, Leading, Whom); queues are lists, a micro-batch is a function, a connection is there or not.

A row is a number: a tuple (0 and above), a mark (-1), the mark of the end (-2), or what stands for a hole (-10 less the results before it).
Selection keeps nothing: inputs are let go when results are delivered, and holes come up. Differences keeps the last tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace

import pyarrow as pa

from kigen.engine.leading import LEADS_ON_S, Leading
from kigen.links import ENDED, Following
from kigen.links.parties import Parties
from kigen.links.record import TUPLES, Record
from kigen.links.steps import HandAcks, Steps, Unit, reached
from kigen.links.whom import Whom

MARK, END, HOLE = -1, -2, -10
SELF, NAMES = "spark", ("n", "n.1")
_RELAY = "relay"
Move = tuple[str, "Pair"]


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
    """A queue: `Parties`, and the rows that are kept."""

    parties: Parties
    rows: list[int] = field(default_factory=list)

    @staticmethod
    def read_by(*readers: str, required: tuple[str, ...] | None = None) -> Line:
        line = Line(Parties())
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
        parties.appended(Record(TUPLES, 0, 0, False, 0, parties.end, count, who.number, who.epoch, sequence, progress_us))
        self.trim(parties.trim)

    def skip(self, offset: int) -> None:
        ahead = max(0, offset - self.parties.end)
        self.rows += [0] * ahead
        self.parties.end += ahead
        self.trim(lambda: self.parties.trim_to(offset))

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

    def read(self, offset: int, at_least: int = 1, skip_trimmed: bool = False) -> tuple[int, list[int]]:
        """Where it begins, and what is there; nothing unless it is `at_least` so much, or no more will come."""
        start = self.parties.start
        assert offset >= start or skip_trimmed, f"offset {offset} is not kept any more, {start} is the first"
        first = max(offset, start)
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
                pending.append(100 + row * 10 + last)
                last = row
            elif row % 2 == 0:
                pending.append(row)
        return Work(self.forgetful, tuple(pending), last), jump, results


@dataclass
class Replica:
    """`worked`, `unit`, `work`, `begun` and the queues are files; the rest is gone with the process."""

    at: int
    given: Line
    made: Line
    work: Work
    worked: int = 0
    unit: int = -1
    begun: int | None = None  # the end of a batch that is under way
    written: bool = False
    up: bool = True
    over: bool = False
    steps: Steps | None = None  # while it follows U
    eager: bool = False  # as it asked when it began to follow
    acks: HandAcks = field(default_factory=lambda: HandAcks(marks))
    leading: Leading = field(default_factory=lambda: Leading(False))

    @property
    def name(self) -> str:
        return NAMES[self.at]

    @property
    def there(self) -> int:
        relay = self.given.parties.producers.get(_RELAY)
        return 0 if relay is None else reached(relay.next, relay.counts == "batches")

    def copy(self) -> Replica:
        made = copy(self)
        made.given, made.made = self.given.copy(), self.made.copy()
        made.steps, made.acks, made.leading = copy(self.steps), copy(self.acks), copy(self.leading)
        made.acks._known, made.leading._commits = copy(self.acks._known), copy(self.leading._commits)
        return made

    def killed(self) -> None:
        self.up, self.written, self.steps, self.eager = False, False, None, False
        self.acks, self.leading = HandAcks(marks), Leading(False)

    def key(self) -> tuple[object, ...]:
        acks, leading = (tuple(self.acks._known), self.acks.last), (self.leading.leads, tuple(self.leading._commits))
        files = (self.given.key(), self.made.key(), self.work, self.worked, self.unit, self.begun)
        return (*files, self.written, self.up, self.over, following_key(self.steps), self.eager, acks, leading)


def following_key(steps: Steps | None) -> object:
    return None if steps is None else (steps._first, tuple(numbers(steps._waiting)))


@dataclass
class Pair:
    script: tuple[int, ...]
    how: Following
    source: Line
    replicas: tuple[Replica, Replica]
    sink: Line
    whom: Whom
    steps: Steps | None = None  # while D follows
    budget: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def over(script: tuple[int, ...], forgetful: bool, at_once: int | None, **budget: int) -> Pair:
        how = Following("none", at_once, skipping=forgetful, by_hand=forgetful)
        source = Line.read_by(*NAMES, required=NAMES[:1] if forgetful else NAMES)
        source.parties.open_producer("main", None, "tuples", None)
        replicas = [Replica(at, Line.read_by(SELF), Line.read_by("d"), Work(forgetful)) for at in (0, 1)]
        for replica in replicas:
            replica.made.parties.open_producer(SELF, None, "batches", None)
        sink = Line.read_by("user")
        return Pair(script, how, source, (replicas[0], replicas[1]), sink, Whom("d", 2), None, tuple(sorted(budget.items())))

    @property
    def expected(self) -> list[int]:
        return Work(self.replicas[0].work.forgetful).over(list(self.script))[2]

    def copy(self) -> Pair:
        one, other = self.replicas
        made = replace(self, source=self.source.copy(), replicas=(one.copy(), other.copy()), sink=self.sink.copy(), whom=copy(self.whom))
        made.steps = copy(self.steps)
        return made

    def key(self) -> tuple[object, ...]:
        one, other = self.replicas
        d = (self.whom.at, following_key(self.steps))
        return self.source.key(), one.key(), other.key(), self.sink.key(), d, self.budget

    # --- what always holds, and what holds in the end ---------------------------------------------------------------

    def check(self) -> None:
        expected = self.expected
        assert self.sink.rows == expected[: len(self.sink.rows)], f"D has {self.sink.rows} of {expected}"
        for replica in self.replicas:
            start, end = replica.made.parties.start, replica.made.parties.end
            assert replica.made.rows == expected[start:end], f"{replica.name} has {replica.made.rows} at {start} of {expected}"

    def check_at_rest(self) -> None:
        assert self.sink.rows == self.expected
        assert self.sink.ended
        assert any(replica.over for replica in self.replicas)
        assert not self.source.rows, f"U keeps {self.source.rows}"

    # --- moves ------------------------------------------------------------------------------------------------------

    def moves(self) -> Iterator[Move]:
        if self.source.parties.end < len(self.script):
            yield self._moved("U makes a row", Pair._make)
        for at in (0, 1):
            yield from self._of_replica(at)
        yield from self._of_reader()

    def _of_replica(self, at: int) -> Iterator[Move]:
        me = self.replicas[at]
        if me.over:
            return
        if not me.up:
            yield self._moved(f"{me.name} is back", lambda w: setattr(w.replicas[at], "up", True))
            return
        if me.steps is None:
            yield self._moved(f"{me.name} follows U", lambda w: w._follow_source(at))
        elif self._news_for(at):
            yield self._moved(f"{me.name} takes rows", lambda w: w._take_input(at))
        if self.how.at_once and me.steps is not None and self.source.parties.readers[me.name].ack < me.there:
            yield self._moved(f"{me.name} acknowledges", lambda w: w.source.ack(me.name, me.there))
        if me.begun is not None and me.written:
            yield self._moved(f"{me.name} commits", lambda w: w._commit(at))
        elif me.begun is not None or me.given.parties.end > me.worked:
            yield self._moved(f"{me.name} works", lambda w: w._work(at))
        followed = self.whom.at == at and self.steps is not None
        if me.leading.leads != followed or (self.how.by_hand and self._delivered(me)):
            yield self._moved(f"{me.name} looks around", lambda w: w._look(at, followed))
        done = me.given.ended and me.begun is None and me.worked == me.given.parties.end and me.made.ended
        if done and not me.made.rows:
            yield self._moved(f"{me.name} ends", lambda w: w._end(at))

    def _of_reader(self) -> Iterator[Move]:
        server, other = self.replicas[self.whom.at], self.replicas[1 - self.whom.at]
        there = self.sink.parties.end
        if self.steps is None:
            if server.up:
                yield self._moved("D follows", Pair._follow_replica)
            elif other.up:
                yield self._moved("D turns", lambda w: w.whom.left(False))
        else:
            _, rows = server.made.read(self.steps.next) if self.steps.next <= server.made.parties.end else (0, [])
            if rows:
                yield self._moved("D takes results", Pair._take_results)
            if server.made.parties.readers["d"].ack < there:
                yield self._moved("D acknowledges", lambda w: w.replicas[w.whom.at].made.ack("d", there))
        if other.up and other.made.parties.readers["d"].ack < there:
            yield self._moved("D tells the other", lambda w: w.replicas[1 - w.whom.at].made.ack("d", there))

    def faults(self) -> Iterator[Move]:
        for kind, left in self.budget:
            if not left:
                continue
            paid = self.copy()
            paid.budget = tuple((k, n - (k == kind)) for k, n in self.budget)
            if kind == "kill":
                for at in (0, 1):
                    if self.replicas[at].up:
                        yield paid._moved(f"{NAMES[at]} is killed", lambda w, at=at: w._kill(at))
                        if self.replicas[at].begun is None and self.replicas[at].given.parties.end > self.replicas[at].worked:
                            yield paid._moved(f"{NAMES[at]} is killed while it writes", lambda w, at=at: w._kill(at, writing=True))
            elif kind == "suspect" and self.steps is not None and self.replicas[1 - self.whom.at].up:
                yield paid._moved("D suspects", Pair._suspect)
            elif kind == "cut":
                for at in (0, 1):
                    if self.replicas[at].steps is not None:
                        yield paid._moved(f"cut before {NAMES[at]}", lambda w, at=at: setattr(w.replicas[at], "steps", None))
            elif kind == "restart":
                yield paid._moved("U is killed and back", Pair._restart_source)

    def _moved(self, name: str, act: Callable[[Pair], object]) -> Move:
        after = self.copy()
        act(after)
        return name, after

    # --- what happens -----------------------------------------------------------------------------------------------

    def _make(self) -> None:
        end = self.source.parties.end
        self.source.append([self.script[end]], end, "main", end + 1 == len(self.script))

    def _follow_source(self, at: int) -> None:
        me, how = self.replicas[at], self.how
        self.source.parties.open_reader(me.name, None, None)
        me.given.parties.open_producer(_RELAY, None, "batches" if how.skipping else "tuples", None)
        me.steps, me.eager = Steps(me.there, marks, hole), me.leading.leads
        if how.by_hand and me.eager:
            self._require(me)
            self._send_done(me)

    def _require(self, me: Replica) -> None:
        self.source.require([name for name in self.source.parties.required if name not in NAMES] + [me.name])

    def _send_done(self, me: Replica) -> None:
        there, note = me.acks.last
        if there and me.steps is not None:
            self.source.ack(me.name, there, note)

    def _input_of(self, at: int) -> tuple[int, list[int]]:
        me, how = self.replicas[at], self.how
        assert me.steps is not None
        return self.source.read(me.steps.next, 1 if how.batch is None or me.eager else how.batch, how.skipping)

    def _news_for(self, at: int) -> bool:
        me = self.replicas[at]
        assert me.steps is not None
        if any(replica.over for replica in self.replicas) and me.steps.next < self.source.parties.start:
            return False  # its other replica has delivered everything; it will be told
        first, rows = self._input_of(at)
        return bool(rows) or first > me.steps.next or (self.source.ended and not me.given.ended and not following_waits(me.steps))

    def _take_input(self, at: int) -> None:
        me, how = self.replicas[at], self.how
        first, rows = self._input_of(at)
        ended = self.source.ended and first + len(rows) == self.source.parties.end
        assert me.steps is not None
        unit = me.steps.came(first, self.source.parties.note, [batch(rows)] if rows else [])
        if unit.rows:
            me.given.append(numbers(unit.batches), unit.end if how.skipping else unit.first, _RELAY, ended and unit.complete)
            if how.by_hand:
                me.acks.appended(unit, me.given.parties.end)
        elif unit.complete and ended:
            me.given.parties.producers[_RELAY].progress_us = ENDED

    def _work(self, at: int) -> None:
        me = self.replicas[at]
        me.begun = me.given.parties.end if me.begun is None else me.begun
        _, rows = me.given.read(me.worked)
        _, jump, results = me.work.over(rows[: me.begun - me.worked])
        if jump is not None:
            me.made.skip(jump)
        if results:
            me.made.append(results, me.unit + 1, SELF, results[-1] == END)
        me.written = True

    def _commit(self, at: int) -> None:
        me = self.replicas[at]
        assert me.begun is not None
        _, rows = me.given.read(me.worked)
        me.work, _, results = me.work.over(rows[: me.begun - me.worked])
        me.unit += bool(results)
        me.worked, me.begun, me.written = me.begun, None, False
        me.given.ack(SELF, me.worked)
        if self.how.by_hand:
            me.leading.committed(me.worked, me.made.parties.end)

    @staticmethod
    def _delivered(me: Replica) -> bool:
        return bool(me.leading._commits) and me.leading._commits[0][1] <= me.made.parties.start

    def _look(self, at: int, followed: bool) -> None:
        me, how = self.replicas[at], self.how
        if me.leading.look(0.0 if followed else LEADS_ON_S) and (how.batch is not None or how.by_hand):
            me.steps = None
        if how.by_hand:
            done = me.leading.delivered(me.made.parties.start)
            if done is not None and me.acks.done(done[0], str(done[1])):
                self._send_done(me)

    def _end(self, at: int) -> None:
        me = self.replicas[at]
        for name in NAMES:
            self.source.ack(name, me.there)
        me.over, me.up, me.steps = True, False, None
        if self.whom.at == at:
            self.steps = None

    def _follow_replica(self) -> None:
        server = self.replicas[self.whom.at]
        server.made.parties.open_reader("d", None, None)
        there = self.sink.parties.open_producer(_RELAY, None, "tuples", None).next
        self.steps = Steps(there, marks)

    def _take_results(self) -> None:
        assert self.steps is not None
        made = self.replicas[self.whom.at].made
        first, rows = made.read(self.steps.next)
        unit: Unit = self.steps.came(first, "", [batch(rows)])
        if unit.rows:
            self.sink.append(numbers(unit.batches), unit.first, _RELAY, made.ended and unit.complete)

    def _kill(self, at: int, writing: bool = False) -> None:
        me = self.replicas[at]
        if writing:  # between the jump and the rows, or between the rows and the commit: the batch is begun either way
            me.begun = me.given.parties.end
            _, jump, _ = me.work.over(me.given.read(me.worked)[1])
            if jump is not None:
                me.made.skip(jump)
        me.killed()
        if self.whom.at == at and self.steps is not None:
            self.steps = None
            self.whom.left(True)

    def _suspect(self) -> None:
        self.steps = None
        self.whom.left(True)

    def _restart_source(self) -> None:
        """It says anew whose acks count; who leads has to say it again."""
        for replica in self.replicas:
            replica.steps = None
        self.source.require(list(NAMES[:1] if self.how.by_hand else NAMES))


def following_waits(steps: Steps) -> bool:
    return bool(steps._waiting)
