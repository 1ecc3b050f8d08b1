"""Runs one trial in virtual time: the parts that real nodes run (`virtual_replica`), with links that take time.

N leads and N.1 follows; D reads from N. N is killed once. D notices that N does not answer and turns to N.1, which
notices that it is read (or, passive, that it is asked), leads, and asks U for what it has not got. The trial ends when
D has every result of what U held when it left N. Cost: about 0.2 ms per tuple.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

from kigen.replicas.replica_names import replica_name
from kigen.replicas.standby_kind import Acks, Alone, asks_anew
from kigen_lab.simulate.standby.links import Links
from kigen_lab.simulate.standby.model import Drawn, StandbyOutcome, StandbySetting, draw_trial
from kigen_lab.simulate.standby.passive_follower import PassiveFollower
from kigen_lab.simulate.standby.records import DrawnOperator, packed_bytes
from kigen_lab.simulate.standby.virtual_queue import SELF, VirtualQueue
from kigen_lab.simulate.standby.virtual_replica import Files, VirtualReplica

U, N, B, D = "U", "N", replica_name("N", 1), "D"
SERVERS = (N, B)  # of D
AFTER_US = 30e6  # how long after the kill a trial may last
_TURN_US, _AGAIN_US = 20_000.0, 200_000.0  # pauses of a relay: after a server that is gone, or never answered


@dataclass
class Connection:
    server: str
    sent: int  # the offset behind what the server has sent


class Trial:
    def __init__(self, setting: StandbySetting) -> None:
        self.setting, self.kind = setting, setting.standby
        self.drawn: Drawn = draw_trial(setting, setting.kill_us + 1e6 + AFTER_US)
        self.source = VirtualQueue.read_by(N, B, required=self.kind.required(N))
        self.source.clients.open_producer("main", None, "tuples", None)
        self.replicas = {name: self._replica(name) for name in (N, B, D)}
        self.replicas[N].leading.leads = True
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order, self.now_us = count(), 0.0
        self.links = Links(setting, self.at)
        self.passive = PassiveFollower(self) if self.kind.acks is Acks.COPIED else None
        self._connections: dict[str, Connection | None] = dict.fromkeys(self.replicas)
        self._unfollowed_since_us = dict.fromkeys(SERVERS, 0.0)
        self._working, self._worked = set[str](), dict.fromkeys(SERVERS, 0)
        self._batched = self._kept_most = 0
        self.dead = False
        self._worked_at_kill = (0, 0)
        self._left_us = self._answered_us = self._recovered_us = 0.0
        self._goal = -1

    def _replica(self, name: str) -> VirtualReplica:
        if name == D:
            files = Files(VirtualQueue.read_by("user"), VirtualQueue.read_by(), DrawnOperator(self.drawn))
            return VirtualReplica(D, Alone(), len(SERVERS), files)
        output = VirtualQueue.read_by(D)
        output.clients.open_producer(SELF, None, "batches", None)
        return VirtualReplica(name, self.kind, 1, Files(VirtualQueue.read_by(SELF), output, DrawnOperator(self.drawn)))

    # --- the loop -----------------------------------------------------------------------------------------------------

    def at(self, time_us: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (time_us, next(self._order), act))

    def every(self, period_us: float, act: Callable[[], None], first_us: float | None = None) -> None:
        def again() -> None:
            act()
            self.at(self.now_us + period_us, again)

        self.at(period_us if first_us is None else first_us, again)

    def run(self) -> StandbyOutcome:
        setting = self.setting
        self.follow(N)
        self.follow(D)
        if self.kind.request(leads=False) is not None:
            self.follow(B)
        self.at(float(self.drawn.times_us[0]), self._arrive)
        self.at(float(self.drawn.acks_us[0]), lambda: self._acknowledge(0))
        self.at(self.drawn.kill_us, self._kill)
        self.every(setting.ping_us, self._ping)
        self.every(setting.report_us, self._report)
        for name in SERVERS:
            self.every(setting.look_us, partial(self._look, name))
        while not self._recovered_us:
            self.now_us, _, act = heapq.heappop(self._queue)
            if self.now_us > self.drawn.kill_us + AFTER_US:
                raise RuntimeError(f"no recovery within {AFTER_US / 1e6:g} s of virtual time: {setting}")
            act()
        return self._outcome()

    def _arrive(self) -> None:
        end = self.source.end
        self.source.append([end], end, "main", ended=False)
        self._kept_most = max(self._kept_most, self.source.end - self.source.start)
        self._pump(N)
        self._pump(B)
        if end + 1 < len(self.drawn.times_us):
            self.at(float(self.drawn.times_us[end + 1]), self._arrive)

    def _kill(self) -> None:
        self.dead, self.links.counting = True, False
        self._worked_at_kill = (self._worked[N], self._worked[B])

    def is_gone(self, name: str) -> bool:
        return self.dead and name == N

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _served(self, name: str) -> VirtualQueue:
        return self.source if name == U else self.replicas[name].output

    def follow(self, name: str) -> None:
        """Opens a connection to the server that a relay has chosen, and has it send what there is."""
        replica = self.replicas[name]
        server = SERVERS[replica.choice.index] if name == D else U
        replica.follow(self._served(server))
        assert replica.units is not None
        self._connections[name] = Connection(server, replica.units.next)
        self._pump(name)
        self._notice_answers()

    def _pump(self, name: str) -> None:
        """Sends a reader what its server has for it."""
        connection, replica = self._connections[name], self.replicas[name]
        if connection is None or self.is_gone(connection.server):
            return
        server = self._served(connection.server)
        offered = replica.offered(server, connection.sent)
        assert offered is not None, "the notes of U are known"
        first, rows = offered
        if not rows:
            return
        connection.sent = first + len(rows)
        backup, note = name == B, server.clients.note or ""
        request = replica.kind.request(replica.asked_as_leader)
        size = packed_bytes(self.drawn, rows, "none" if request is None else request.compress)
        self._batched += len(rows) if backup and not self.dead else 0
        arrive = partial(self._receive, name, connection, first, note, rows)
        self.links.send(self.now_us, connection.server, name, size, arrive, backup)

    def _receive(self, name: str, connection: Connection, first: int, note: str, rows: list[int]) -> None:
        if connection is not self._connections[name] or self.is_gone(name):
            return
        self.replicas[name].received(first, note, rows, ended=False)
        if name == D:
            self._notice_recovery()
            return
        if self.kind.acks is Acks.APPENDED:
            position = self.replicas[name].position
            self.links.send(self.now_us, name, U, 0, lambda: self.source.ack(name, position), backup=name == B)
        self._work(name)

    def _work(self, name: str) -> None:
        """Begins a micro-batch over all that is there, unless one is under way."""
        replica = self.replicas[name]
        if name in self._working or not replica.has_work:
            return
        self._working.add(name)
        replica.begin_batch()
        tuples = sum(row >= 0 for row in replica.batch_rows())
        self.at(self.now_us + tuples * self.setting.cost_us, partial(self._finish, name, tuples))

    def _finish(self, name: str, tuples: int) -> None:
        if self.is_gone(name):
            return
        self._working.discard(name)
        self._worked[name] += tuples
        self.replicas[name].write()
        self.replicas[name].commit()
        if self.passive is not None:
            self.passive.offer_copy(name)
        connection = self._connections[D]
        if connection is not None and connection.server == name:
            self._pump(D)
        self._work(name)

    # --- acks and roles -----------------------------------------------------------------------------------------------

    def _acknowledge(self, index: int) -> None:
        """D acknowledges to the server that it follows."""
        connection, position = self._connections[D], self.replicas[D].position
        if connection is not None:
            server = connection.server
            self.links.send(self.now_us, D, server, 0, lambda: self._acknowledged(server, position))
        self.at(float(self.drawn.acks_us[index + 1]), lambda: self._acknowledge(index + 1))

    def _acknowledged(self, server: str, position: int) -> None:
        if not self.is_gone(server):
            self.replicas[server].output.ack(D, position)

    def _report(self) -> None:
        """D acknowledges to the server that it does not follow."""
        ack, other = self.replicas[D].ack_for_others(), SERVERS[1 - self.replicas[D].choice.index]
        if ack is not None and self.passive is None:
            self.links.send(self.now_us, D, other, 0, lambda: self._acknowledged(other, ack[0]), backup=True)

    def _look(self, name: str) -> None:
        """A replica looks at its role and at what it may acknowledge, as the loop of a node does."""
        if self.is_gone(name):
            return
        if self.passive is not None:
            self.passive.look(name)
            return
        replica = self.replicas[name]
        changed, delivered = replica.look(self.unfollowed_s(name))
        if changed and asks_anew(self.kind):
            self._connections[name] = replica.units = None
            self.at(self.now_us + self.drawn.connects_us[0], partial(self.follow, name))
        elif delivered:
            offset, note = replica.acks.last
            self.links.send(self.now_us, name, U, 0, lambda: self.source.ack(name, offset, note))
        self._notice_answers()

    def unfollowed_s(self, name: str) -> float:
        """Returns for how long D has not followed a replica; 0: it does."""
        connection = self._connections[D]
        if connection is not None and connection.server == name:
            self._unfollowed_since_us[name] = self.now_us
            return 0.0
        return (self.now_us - self._unfollowed_since_us[name]) / 1e6 + 1e-9

    # --- recovery -----------------------------------------------------------------------------------------------------

    def _ping(self) -> None:
        connection = self._connections[D]
        if connection is not None and self.is_gone(connection.server) and not self._left_us:
            self._left_us = self.now_us + self.setting.silence_us
            self.at(self._left_us, self._leave)
        self.links.ping()  # D asks N
        self.links.ping()  # N asks U
        if self.passive is None:
            self.links.ping(backup=True)  # N.1 asks U

    def _leave(self) -> None:
        """N has not answered for too long."""
        self._goal = int(self.drawn.passed[self.source.end])
        self._connections[D] = None
        self.replicas[D].lost()
        self.at(self.now_us + _TURN_US + self.drawn.connects_us[1], self._try)

    def _try(self) -> None:
        """D tries the server that it has chosen. One that is gone does not answer; a passive follower refuses."""
        server = SERVERS[self.replicas[D].choice.index]
        if self.is_gone(server):
            self.at(self.now_us + self.setting.silence_us, self._try_next)
        elif self.passive is not None and not self.passive.serves():
            self._try_next()
        else:
            self.follow(D)

    def _try_next(self) -> None:
        self.replicas[D].lost(answered=False)
        gone = self.is_gone(SERVERS[self.replicas[D].choice.index])
        self.at(self.now_us + _AGAIN_US + (0.0 if gone else self.drawn.connects_us[1]), self._try)

    def _notice_answers(self) -> None:
        served = self._connections[D]
        ready = served is not None and served.server == B and self.replicas[B].leading.leads
        if self._left_us and ready and self._connections[B] is not None and not self._answered_us:
            self._answered_us = self.now_us
            self._notice_recovery()

    def _notice_recovery(self) -> None:
        if self._answered_us and self.replicas[D].position >= self._goal:
            self._recovered_us = self.now_us

    def _outcome(self) -> StandbyOutcome:
        got, passed = self.replicas[D].input.rows, self.drawn.passed
        expected = [tuple_ for tuple_ in range(self.source.end) if passed[tuple_ + 1] > passed[tuple_]]
        return StandbyOutcome(
            tuples=int((self.drawn.times_us < self.drawn.kill_us).sum()),
            primary_bytes=self.links.payload.primary,
            backup_bytes=self.links.payload.backup,
            primary_wire=self.links.wire.primary,
            backup_wire=self.links.wire.backup,
            batched=self._batched,
            detection_us=self._left_us - self.drawn.kill_us,
            reconnection_us=self._answered_us - self._left_us,
            recovery_us=self._recovered_us - self._left_us,
            secondary_work=self._worked_at_kill[1] / max(1, self._worked_at_kill[0]),
            kept_most=self._kept_most,
            exact=len(got) >= self._goal and got == expected[: len(got)],
        )


def simulate_standby(setting: StandbySetting) -> StandbyOutcome:
    """Runs one trial: N is killed once; see `StandbyOutcome`."""
    return Trial(setting).run()
