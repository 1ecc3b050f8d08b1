"""A replica in time: heartbeats, suspicion, regular acks and copies around the state machine. Still no clock: `now_us`
comes with every event.

What a node process does: hand every message, answer of the operator and tick to `handle`, and do what it says.
Invariant: the replica alone decides what is right; this part only decides when.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kigen_lab.simulate.standby.machine import events as e
from kigen_lab.simulate.standby.machine import messages as m
from kigen_lab.simulate.standby.machine.detector import Beats, Detector
from kigen_lab.simulate.standby.machine.replica import Replica
from kigen_lab.simulate.standby.machine.topology import Place, node_of


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True)
class Times:
    beats: Beats = field(default_factory=Beats)
    ack_us: float = 100_000.0  # between Level-0 acks


class Node:
    def __init__(self, place: Place, times: Times, now_us: float, *, fresh: bool = False) -> None:
        self.place, self.times = place, times
        self.replica = Replica(place, fresh=fresh)
        self.detector = Detector(times.beats, now_us)
        self._beat_us = self._ack_us = now_us
        self._copy_us = now_us + place.standby.period_us

    def handle(self, now_us: float, event: e.Event | Tick) -> list[e.Action]:
        if isinstance(event, Tick):
            return self._tick(now_us)
        if not isinstance(event, e.Delivered):
            return self.replica.handle(event)
        message = event.message
        if self._leads(message):
            self.detector.heard(message.sender, now_us, leads=message.sender == self.place.partner)
        if isinstance(message, m.Ask):
            return self._answer(message, now_us)
        if isinstance(message, m.Answer):
            self.detector.answered(message.sender, message.heard, message.about_epoch)
            return []
        return self.replica.handle(event)

    def next_us(self) -> float:
        """When the next tick is wanted."""
        wanted = [self._beat_us]
        if self.replica.role == "secondary":
            wanted.append(self.detector.due_us())
        elif not self.place.paired:
            wanted.append(self._ack_us)
        elif self.place.standby.passive:
            wanted.append(self._copy_us)
        return min(wanted)

    def _tick(self, now_us: float) -> list[e.Action]:
        actions: list[e.Action] = []
        replica = self.replica
        if now_us >= self._beat_us:
            self._beat_us = now_us + self.times.beats.every_us
            if replica.role == "primary" and self.place.partner:  # nobody takes over for a node without a standby
                beat = m.Heartbeat(self.place.me, replica.epoch, primary=True)
                actions += [e.Send(peer, beat) for peer in (*self.place.neighbours, self.place.partner)]
        if replica.role == "secondary":
            step = self.detector.step(now_us)
            if step == "ask":
                actions += [e.Send(peer, m.Ask(self.place.me, replica.epoch)) for peer in self.place.neighbours]
            elif step == "take over":
                actions += replica.handle(e.TakeOver(self.detector.highest_epoch))
        elif not self.place.paired and now_us >= self._ack_us:
            self._ack_us = now_us + self.times.ack_us
            actions += replica.handle(e.Acknowledge())
        elif self.place.standby.passive and now_us >= self._copy_us:
            self._copy_us = now_us + self.place.standby.period_us
            actions += replica.handle(e.CopyNow())
        return actions

    def _leads(self, message: m.Message) -> bool:
        """Only a primary says this, and not one that another has replaced."""
        node = node_of(message.sender)
        known = self.replica.epoch if node == self.place.node else self.replica.known[node]
        said = isinstance(message, m.Data | m.Level0 | m.Level1 | m.Announce | m.State) or (
            isinstance(message, m.Heartbeat) and message.primary
        )
        return said and message.epoch >= known

    def _answer(self, ask: m.Ask, now_us: float) -> list[e.Action]:
        about = node_of(ask.sender)
        epoch = self.replica.known.get(about, 0)
        others = [peer for peer in self.place.topology.replicas(about) if peer != ask.sender]
        heard = any(self.detector.hears(peer, now_us) for peer in others)
        return [e.Send(ask.sender, m.Answer(self.place.me, self.replica.epoch, about, heard, epoch))]
