"""What every replica does in either role: take inputs, number results, keep restart points, send what is due.

Invariants:
- a primary listens to, and is listened to by, the newest epoch only; whoever speaks for an older one is told so
  (`Fenced`);
- a Level-1 ack names a point before which every result is released, so nothing is trimmed upstream that anybody could
  need;
- restart points only go forward, also from one primary to the next.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from kigen_lab.simulate.standby.machine.cuts import START, Cut, Mark
from kigen_lab.simulate.standby.machine.events import Action, Feed, Keep, Reset, Send, Stuck, Trim
from kigen_lab.simulate.standby.machine.inputs import Inputs
from kigen_lab.simulate.standby.machine.messages import Data, Fenced, Level1, Message, Resume
from kigen_lab.simulate.standby.machine.outputs import Outputs
from kigen_lab.simulate.standby.machine.topology import Place, node_of

Role = Literal["primary", "secondary"]


class Core:
    def __init__(self, place: Place, *, fresh: bool = False) -> None:
        """`fresh`: begun anew amid a running system, knowing nothing. Otherwise all begin together, replica 0 as the
        primary of epoch 1."""
        self.place = place
        self.fresh = fresh
        self.role: Role = "secondary" if fresh or place.index else "primary"
        self.epoch = 0 if fresh else 1
        self.known = dict.fromkeys((*place.upstream, *place.downstream), 0 if fresh else 1)
        self.inputs = Inputs(place.inputs)
        self.outputs = Outputs(place)
        self.mark: Mark = START  # the newest restart point of this node that the replica has heard of
        self.through = Cut()  # worked off
        self.history: tuple[Mark, ...] = (
            START,
        )  # restart points to be: the first becomes one when its results are released
        self.trimmed = Cut()
        self.waiting: frozenset[str] = frozenset()  # gap recovery: who has not yet said where to go on
        self.awaiting_copy = fresh and place.standby.returning == "copy"
        self.copying = self.copy_due = False
        self.missed = False  # gap recovery: inputs were missed
        self.line = 1  # gap recovery: the epoch whose numbers this replica's results have
        self.stuck = ""
        self._actions: list[Action] = []
        if fresh:
            self.outputs.hold(from_level0=False)

    # -- sending
    # --------------------------------------------------------------------------------

    def _do(self, action: Action) -> None:
        self._actions.append(action)

    def _send(self, to: str, message: Message) -> None:
        self._actions.append(Send(to, message))

    def _replicas(self, node: str) -> tuple[str, ...]:
        return self.place.topology.replicas(node)

    def _resume(self, stream: str, first: int) -> None:
        for replica in self._replicas(self.place.inputs[stream]):
            self._send(replica, Resume(self.place.me, self.epoch, stream, first, backup=self.role == "secondary"))

    def _send_due(self) -> None:
        if self.role != "primary" or self.waiting:
            return
        topology = self.place.topology
        for part in self.outputs.due():
            epoch = self.known[part.reader]
            to = topology.backup(part.reader, epoch) if part.backup else topology.owner(part.reader, epoch)
            if to is not None:
                self._send_range(to, part.stream, part.reader, part.first, part.end, part.start, part.backup)

    def _send_range(self, to: str, stream: str, reader: str, first: int, end: int, start: int, backup: bool) -> None:
        mark = self.outputs.queues[stream].readers[reader].mark
        self._send(to, Data(self.place.me, self.epoch, stream, first, end, start, mark, self.known[reader], backup))

    # -- who speaks
    # --------------------------------------------------------------------------------

    def _learn(self, message: Message) -> bool:
        """Whether a neighbour's epoch is news."""
        node = node_of(message.sender)
        if message.epoch <= self.known[node]:
            return False
        self.known[node] = message.epoch
        if node in self.place.downstream:
            self.outputs.forget(node)
        return True

    def _speaks_for_its_node(self, message: Message) -> bool:
        """The sender is its node's primary, as far as known here. If it is not, it is told."""
        node = node_of(message.sender)
        self._learn(message)
        if message.epoch == self.known[node] and message.sender == self.place.topology.owner(node, message.epoch):
            return True
        self._send(message.sender, Fenced(self.place.me, self.epoch, self.known[node]))
        return False

    # -- working
    # --------------------------------------------------------------------------------

    def _accept(self, stream: str, first: int, end: int, *, again: bool = False) -> None:
        """Take tuples [first, end). `again`: also those that came before (rollback, duplicates)."""
        one = self.inputs.streams[stream]
        begin = first if again else max(first, one.received)
        if begin >= end:
            return
        self._do(Keep(stream, begin, end))
        if again and begin < one.received:
            self._do(Feed(self.inputs.generation, stream, begin, min(one.received, end)))
        one.received = max(one.received, end)

    def _feed(self) -> None:
        if not self.waiting and not self.stuck:
            self._actions.extend(self.inputs.feeds())

    def _hear_mark(self, mark: Mark) -> None:
        if mark.not_before(self.mark):
            self.mark = mark
        for node, below in mark.rests_on:
            if node in self.place.downstream:
                self.outputs.level1(node, below)

    def _begin_anew(self, mark: Mark, arriving: str | None = None) -> None:
        """An empty operator at a restart point; inputs that had come already are asked for again where the point needs
        them."""
        if mark.copied:
            if not self.stuck:
                self.stuck = (
                    f"{self.place.node} has lost its state, and its inputs were trimmed against a copy that is gone"
                )
                self._do(Stuck(self.stuck + ": restart it from its checkpoint"))
            return
        had = self.inputs.received
        self.inputs.begin(mark)
        self.outputs.begin(mark.outputs)
        self.history = (mark,)
        self.through, self.line = mark.needed, mark.line
        self._do(Reset(self.inputs.generation, mark.needed, mark.outputs))
        for stream in self.inputs.streams:
            if stream != arriving and had[stream] > mark.needed[stream]:
                self._resume(stream, mark.needed[stream])

    def _release(self) -> None:
        """Trim what every reader has released; as a primary, pass the news upstream."""
        starts = self.outputs.starts
        trim = Cut.of({stream: min(start, self.outputs.queues[stream].end) for stream, start in starts})
        for stream, before in trim:
            if before > self.trimmed[stream]:
                self._do(Trim(stream, before))
        self.trimmed = trim
        done = 0
        while done < len(self.history) and starts.reaches(self.history[done].outputs):
            done += 1
        newest = self.history[done - 1] if done else START
        if done > 1:
            self.history = self.history[done - 1 :]
        if (
            self.place.standby.passive
            or self.role != "primary"
            or not newest.not_before(self.mark)
            or newest.through == self.mark.through
        ):
            return
        if self.place.paired and not self.waiting and all(one.accepted for one in self.inputs.streams.values()):
            self.mark = replace(newest, line=self.line, rests_on=self.outputs.rests_on)
            self._tell_mark()

    def _tell_mark(self) -> None:
        for node in self.place.upstream:
            for replica in self._replicas(node):
                self._send(replica, Level1(self.place.me, self.epoch, self.mark))
