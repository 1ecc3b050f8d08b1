"""One trial in virtual time: the very `Node` objects that node processes run, with links that take time and count
bytes.

The run ends when Nd has every result of what Nu held at the takeover. A link sends one message after the other, at its
bandwidth, then it takes its delay. Cost: about 50 microseconds an event, five events a tuple.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from kigen_lab.simulate.standby.host import SimHost
from kigen_lab.simulate.standby.machine import events as e
from kigen_lab.simulate.standby.machine import messages as m
from kigen_lab.simulate.standby.machine.compression import squeeze
from kigen_lab.simulate.standby.machine.cuts import Cut
from kigen_lab.simulate.standby.machine.node import Node, Tick, Times
from kigen_lab.simulate.standby.machine.topology import Place, Stream, Topology
from kigen_lab.simulate.standby.model import TUPLE_BYTES, Drawn, StandbyOutcome, StandbySetting, draw_trial

U, N, B, D = "U.0", "N.0", "N.1", "D.0"
AFTER_US = 30e6  # how long after the kill a trial may last


@dataclass
class _Link:
    free_us: float = 0.0
    ready_us: float = 0.0


class _Trial:
    def __init__(self, setting: StandbySetting) -> None:
        self.setting = setting
        self.drawn: Drawn = draw_trial(setting, setting.kill_us + 1e6 + AFTER_US)
        topology = Topology((Stream("s", "U", ("N",)), Stream("r", "N", ("D",))), {"N": setting.standby})
        times = Times(setting.beats, ack_us=float("inf"))
        self.nodes = {
            f"{node}.{index}": Node(Place(topology, node, index), times, 0.0)
            for node, index in (("U", 0), ("N", 0), ("N", 1), ("D", 0))
        }
        windowed, cost = bool(setting.window_us), setting.cost_us
        self.hosts = {name: SimHost(self.nodes[name], self.drawn, "s", "r", cost, windowed) for name in (N, B)}
        self.hosts[D] = SimHost(self.nodes[D], self.drawn, "r", "", 0.0, False)
        self.links: dict[tuple[str, str], _Link] = {}
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.order = count()
        self.now_us = 0.0
        self.ticks = dict.fromkeys(self.nodes, float("inf"))
        self.payload = {False: 0, True: 0}
        self.wire = {False: 0, True: 0}
        self.batched = self.kept_most = 0
        self.dead = False
        self.took_over_us = self.answered_us = self.recovered_us = 0.0
        self.work_before = (0, 0)
        self.goal = -1

    # -- the loop
    # ------------------------------------------------------------------------------------------------------------------

    def at(self, time_us: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (time_us, next(self.order), what))

    def go(self) -> StandbyOutcome:
        self.at(float(self.drawn.times_us[0]), self._arrive)
        self.at(float(self.drawn.acks_us[0]), lambda: self._acknowledge(0))
        self.at(self.drawn.kill_us, self._kill)
        for name in self.nodes:
            self._want_tick(name)
        while not self.recovered_us:
            self.now_us, _, what = heapq.heappop(self.queue)
            if self.now_us > self.drawn.kill_us + AFTER_US:
                raise RuntimeError(f"no recovery within {AFTER_US / 1e6:g} s of virtual time: {self.setting}")
            what()
        return self._outcome()

    def _handle(self, name: str, event: e.Event | Tick) -> None:
        if self.dead and name == N:
            return
        self._obey(name, self.nodes[name].handle(self.now_us, event))
        self._want_tick(name)
        self._notice(name)

    def _want_tick(self, name: str) -> None:
        wanted = max(self.nodes[name].next_us(), self.now_us)
        if wanted < self.ticks[name]:
            self.ticks[name] = wanted
            self.at(wanted, lambda: self._tick(name, wanted))

    def _tick(self, name: str, wanted: float) -> None:
        if self.ticks[name] == wanted:
            self.ticks[name] = float("inf")
            self._handle(name, Tick())

    def _arrive(self) -> None:
        end = self.nodes[U].replica.outputs.queues["s"].end + 1
        self._handle(U, e.Produced(0, Cut(), Cut.of({"s": 1}), Cut()))
        self.kept_most = max(self.kept_most, end - self.nodes[U].replica.outputs.start("s"))
        if end < len(self.drawn.times_us):
            self.at(float(self.drawn.times_us[end]), self._arrive)

    def _acknowledge(self, index: int) -> None:
        self._handle(D, e.Acknowledge())
        self.at(float(self.drawn.acks_us[index + 1]), lambda: self._acknowledge(index + 1))

    def _kill(self) -> None:
        self.dead = True
        self.work_before = (self.hosts[N].worked, self.hosts[B].worked)

    # -- what the replicas ask for
    # -------------------------------------------------------------------------------------------------

    def _obey(self, name: str, actions: list[e.Action]) -> None:
        for action in actions:
            if isinstance(action, e.Send):
                self._send(name, action.to, action.message)
            elif isinstance(action, e.Feed):
                self.at(self.hosts[name].start(action, self.now_us), partial(self._finish, name))
            elif isinstance(action, e.TakeCopy):
                self.hosts[name].copies.append(action)
                self._copy(name)
            elif isinstance(action, e.Reset):
                self.hosts[name].through = action.inputs[self.hosts[name].input]
            elif isinstance(action, e.Load):
                self.hosts[name].through = action.mark.through[self.hosts[name].input]
            elif isinstance(action, e.Became) and action.role == "primary":
                self._took_over()

    def _finish(self, name: str) -> None:
        self._handle(name, self.hosts[name].finish())
        self._copy(name)

    def _copy(self, name: str) -> None:
        done = self.hosts[name].copied()
        if done is not None:
            self._handle(name, done)

    def _send(self, sender: str, to: str, message: m.Message) -> None:
        backup = to == B and isinstance(message, m.Data | m.State)
        size = self._bytes(message)
        if not self.dead:
            self.payload[backup] += size
            self.wire[backup or B in (sender, to)] += size + self.setting.header_bytes
            if backup and isinstance(message, m.Data):
                self.batched += message.end - message.first
        link = self.links.setdefault((sender, to), _Link())
        begin = max(self.now_us, link.free_us, link.ready_us)
        link.free_us = begin + (size + self.setting.header_bytes) / self.setting.bandwidth * 1e6
        self.at(link.free_us + self.setting.delay_us, lambda: self._handle(to, e.Delivered(message)))

    def _bytes(self, message: m.Message) -> int:
        if isinstance(message, m.Data) and message.stream == "s":
            plain = self.drawn.records[message.first * TUPLE_BYTES : message.end * TUPLE_BYTES]
            return len(squeeze(self.setting.standby.compress, plain)[1]) if message.backup else len(plain)
        if isinstance(message, m.Data):
            return (message.end - message.first) * TUPLE_BYTES
        if isinstance(message, m.State):
            tuples = self.hosts[N].state_tuples() + message.mark.outputs["r"] - message.kept["r"]
            last = message.mark.through["s"] * TUPLE_BYTES
            return len(
                squeeze(self.setting.standby.compress, self.drawn.records[max(0, last - tuples * TUPLE_BYTES) : last])[
                    1
                ]
            )
        return 0

    # -- recovery
    # ------------------------------------------------------------------------------------------------------------------

    def _took_over(self) -> None:
        self.took_over_us = self.now_us
        held = self.nodes[U].replica.outputs.queues["s"].end
        self.goal = int(self.drawn.passed[held])
        for to, took_us in zip((U, D), self.drawn.connects_us, strict=True):
            self.links[B, to] = replace(self.links.get((B, to), _Link()), ready_us=self.now_us + took_us)

    def _notice(self, name: str) -> None:
        if not self.took_over_us:
            return
        replica = self.nodes[B].replica
        if (
            name == B
            and not self.answered_us
            and replica.inputs.streams["s"].accepted
            and replica.outputs.queues["r"].readers["D"].sent is not None
        ):
            self.answered_us = self.now_us
        if (
            self.answered_us
            and self.hosts[D].through >= self.goal
            and self.hosts[B].through >= self.nodes[B].replica.inputs.base.through["s"]
        ):
            self.recovered_us = self.now_us

    def _outcome(self) -> StandbyOutcome:
        sink = self.nodes[D].replica.inputs.streams["r"]
        return StandbyOutcome(
            tuples=int((self.drawn.times_us < self.drawn.kill_us).sum()),
            primary_bytes=self.payload[False],
            backup_bytes=self.payload[True],
            primary_wire=self.wire[False],
            backup_wire=self.wire[True],
            batched=self.batched,
            detection_us=self.took_over_us - self.drawn.kill_us,
            reconnection_us=self.answered_us - self.took_over_us,
            recovery_us=self.recovered_us - self.took_over_us,
            secondary_work=self.work_before[1] / max(1, self.work_before[0]),
            kept_most=self.kept_most,
            exact=self.hosts[D].worked == sink.fed >= self.goal,
        )


def simulate_standby(setting: StandbySetting) -> StandbyOutcome:
    """One trial: N is killed once; see `StandbyOutcome`."""
    return _Trial(setting).go()
