"""One replica of a node: events in, actions out. The same object is upstream queue, primary, secondary and reader,
whatever its node is to others.

The life of a tuple: the upstream primary sends it to the primary (`Data`) and keeps it; when a batch of tuples is kept
that no Level-1 ack has released, the batch goes to the secondary, which runs the same operator and keeps its results
back. Readers acknowledge; the primary turns that into a Level-1 ack; upstream trims. A secondary that finds a hole in
its batches (they were trimmed) begins anew at the mark that came with the batch. Takeover: claim the next epoch,
announce it downstream, resume upstream, go on.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from kigen_lab.simulate.standby.machine import events as e
from kigen_lab.simulate.standby.machine import messages as m
from kigen_lab.simulate.standby.machine.cuts import Mark
from kigen_lab.simulate.standby.machine.takeover import Takeover
from kigen_lab.simulate.standby.machine.topology import node_of


class Replica(Takeover):
    def handle(self, event: e.Event) -> list[e.Action]:
        """The one entry point."""
        if isinstance(event, e.Delivered):
            _MESSAGES[type(event.message)](self, event.message)
        else:
            _EVENTS[type(event)](self, event)
        self._feed()
        self._release()
        self._send_due()
        self._take_copy()
        done, self._actions = self._actions, []
        return done

    # -- the host
    # ------------------------------------------------------------------------------------------------------------------

    def _on_produced(self, event: e.Produced) -> None:
        if event.generation != self.inputs.generation:
            return
        self.through = event.through
        if not event.through.reaches(self.inputs.base.through):
            return
        self.outputs.produced(event.results)
        if self.inputs.streams:
            self.history = (*self.history, Mark(self.outputs.ends, event.through, event.needed))

    def _on_acknowledge(self, _: e.Acknowledge) -> None:
        if self.place.paired or self.role != "primary":
            return
        for stream in self.inputs.streams:
            self._acknowledge(stream)

    def _acknowledge(self, stream: str) -> None:
        for replica in self._replicas(self.place.inputs[stream]):
            self._send(replica, m.Level0(self.place.me, self.epoch, stream, self.through[stream]))

    def _on_reconnected(self, event: e.Reconnected) -> None:
        node = node_of(event.peer)
        if event.peer == self.place.partner:
            if self.role == "primary":
                self._send(event.peer, m.Announce(self.place.me, self.epoch))
            elif not self.epoch or self.awaiting_copy:
                self._send(event.peer, m.Hello(self.place.me, self.epoch))
            return
        if node in self.place.upstream:
            for stream, producer in self.place.inputs.items():
                if producer == node:
                    self.inputs.streams[stream].asked = -1
                    first = m.FROM_NOW if stream in self.waiting else self.inputs.streams[stream].received
                    self._send(
                        event.peer, m.Resume(self.place.me, self.epoch, stream, first, backup=self.role == "secondary")
                    )
            if self.role == "primary" and self.place.paired:
                self._send(event.peer, m.Level1(self.place.me, self.epoch, self.mark))
        if node in self.place.downstream and self.role == "primary":
            self._announce_to(event.peer)

    def _on_heartbeat(self, beat: m.Heartbeat) -> None:
        if beat.sender == self.place.partner:
            if beat.primary and beat.epoch > self.epoch:
                self._step_down(beat.epoch)
            elif beat.primary and beat.epoch < self.epoch:
                self._send(beat.sender, m.Fenced(self.place.me, self.epoch, self.epoch))
        elif beat.primary:
            self._speaks_for_its_node(beat)

    # -- from upstream
    # -------------------------------------------------------------------------------------------------------------

    def _on_data(self, data: m.Data) -> None:
        if not self._speaks_for_its_node(data) or data.stream not in self.inputs.streams:
            return
        if (data.backup and self.awaiting_copy) or self.stuck:
            return
        one = self.inputs.streams[data.stream]
        self._hear_mark(data.mark)
        if self.role == "primary" and data.reader_epoch == self.epoch and not data.backup:
            one.accepted = True
            if self._gap_answer(data):
                return
        if self.role == "secondary" and self.mark.line > self.line:
            self._begin_anew(self.mark, arriving=data.stream)
        if data.first > one.received:
            if data.start > one.received and self._may_miss(data):
                self._do(e.Lost(data.stream, one.received, data.first))
                one.received = one.fed = data.first
            elif data.start > one.received:
                self._begin_anew(self.mark, arriving=data.stream)
            if data.first > one.received:  # lost on the way
                if one.asked != one.received and not self.stuck:
                    one.asked = one.received
                    self._resume(data.stream, one.received)
                return
        again = self.place.topology.recovery(node_of(data.sender)) == "rollback" and not self.place.paired
        self._accept(data.stream, data.first, data.end, again=again)

    def _may_miss(self, data: m.Data) -> bool:
        """What the sender no longer has is lost for good, if its node recovers with gaps; a secondary gets its state
        from elsewhere."""
        return (
            self.role == "primary" and not data.backup and self.place.topology.recovery(node_of(data.sender)) == "gap"
        )

    def _on_announce(self, announce: m.Announce) -> None:
        node = node_of(announce.sender)
        if announce.sender == self.place.partner:
            if announce.epoch > self.epoch:
                self._step_down(announce.epoch)
            elif announce.epoch < self.epoch and self.role == "primary":
                self._send(announce.sender, m.Fenced(self.place.me, self.epoch, self.epoch))
            return
        news = announce.epoch > self.known[node]
        if not self._speaks_for_its_node(announce):
            return
        if news and self.place.topology.recovery(node) == "rollback" and not self.place.paired:
            return  # it sends what it does not know to have arrived, without being asked
        for stream, producer in self.place.inputs.items():
            if producer == node and not self.awaiting_copy:
                self.inputs.streams[stream].asked = -1
                first = self.inputs.streams[stream].received
                self._send(
                    announce.sender, m.Resume(self.place.me, self.epoch, stream, first, backup=self.role == "secondary")
                )

    # -- from downstream
    # -----------------------------------------------------------------------------------------------------------

    def _on_level0(self, ack: m.Level0) -> None:
        if self._speaks_for_its_node(ack):
            self.outputs.level0(node_of(ack.sender), ack.stream, ack.received)

    def _on_level1(self, ack: m.Level1) -> None:
        if self._speaks_for_its_node(ack):
            self.outputs.level1(node_of(ack.sender), ack.mark)

    def _on_resume(self, resume: m.Resume) -> None:
        node = node_of(resume.sender)
        if resume.backup:
            self._learn(resume)
            if resume.sender == self.place.topology.owner(node, self.known[node]):
                self.outputs.forget(node)  # it lost its state: its partner will take over
                return
        elif not self._speaks_for_its_node(resume):
            return
        if self.role != "primary" or node not in self.place.downstream:
            return
        reader = self.outputs.queues[resume.stream].readers[node]
        if resume.backup:
            reader.batched = resume.first
            return
        end = self.outputs.queues[resume.stream].end
        reader.sent = end if resume.first == m.FROM_NOW else resume.first
        self._gap_reader(node, resume.stream)
        start = self.outputs.released(resume.stream, node)
        if not self.waiting and max(reader.sent, start) >= end:  # nothing to send: say so, the mark is news too
            self._send_range(
                resume.sender, resume.stream, node, max(reader.sent, start), max(reader.sent, start), start, False
            )

    # -- looking at it
    # -------------------------------------------------------------------------------------------------------------

    def clone(self) -> Replica:
        other = copy.copy(self)
        other.inputs, other.outputs, other.known = self.inputs.clone(), self.outputs.clone(), dict(self.known)
        other._actions = []
        return other

    def key(self) -> tuple[object, ...]:
        """All that its future depends on (but the number of generations)."""
        flags = (
            self.role,
            self.epoch,
            self.waiting,
            self.awaiting_copy,
            self.copying,
            self.copy_due,
            self.missed,
            self.line,
            self.stuck,
        )
        return (
            flags,
            tuple(self.known.values()),
            self.inputs.key(),
            self.outputs.key(),
            self.mark,
            self.through,
            self.history,
            self.trimmed,
        )

    def status(self) -> dict[str, Any]:
        """For people: role, epoch, what is kept, how far behind."""
        return {
            "role": self.role,
            "epoch": self.epoch,
            "stuck": self.stuck,
            "inputs": {
                name: {"received": one.received, "worked_off": self.through[name]}
                for name, one in self.inputs.streams.items()
            },
            "outputs": {
                name: {"kept": max(0, q.end - self.outputs.start(name)), "end": q.end}
                for name, q in self.outputs.queues.items()
            },
        }


_EVENTS: dict[type, Callable[[Replica, Any], None]] = {
    e.Started: Replica._on_started,
    e.Produced: Replica._on_produced,
    e.Acknowledge: Replica._on_acknowledge,
    e.TakeOver: Replica._on_take_over,
    e.Reconnected: Replica._on_reconnected,
    e.CopyNow: Replica._on_copy_now,
    e.Copied: Replica._on_copied,
    e.Restored: Replica._on_restored,
}
_MESSAGES: dict[type, Callable[[Replica, Any], None]] = {
    m.Data: Replica._on_data,
    m.Announce: Replica._on_announce,
    m.Level0: Replica._on_level0,
    m.Level1: Replica._on_level1,
    m.Resume: Replica._on_resume,
    m.Fenced: Replica._on_fenced,
    m.Heartbeat: Replica._on_heartbeat,
    m.Hello: Replica._on_hello,
    m.State: Replica._on_state,
    m.StateAck: Replica._on_state_ack,
}
