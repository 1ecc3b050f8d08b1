"""Changes of role: taking over, stepping down, coming back without state, copies of state.

Precise: a new primary sends nothing before the readers have said what they have. Rollback: it sends what is not known
to have arrived, at once. Gap: it does not ask upstream for what it has not got; it goes on with what comes next, with
an empty operator if anything was missed, and says what was. Passive standby is the copy of state at regular times, and
inputs trimmed against it; the rest is the same code.
"""

from __future__ import annotations

from kigen_lab.simulate.standby.machine import events as e
from kigen_lab.simulate.standby.machine import messages as m
from kigen_lab.simulate.standby.machine.core import Core
from kigen_lab.simulate.standby.machine.cuts import START, Cut, Mark
from kigen_lab.simulate.standby.machine.topology import node_of


class Takeover(Core):
    # -- taking over
    # --------------------------------------------------------------------------------

    def _on_take_over(self, event: e.TakeOver) -> None:
        if self.role == "secondary" and not self.stuck:
            self._claim(max(self.epoch, event.above))

    def _claim(self, above: int) -> None:
        recovery = self.place.standby.recovery
        self.role, self.epoch = "primary", self.place.next_epoch(above)
        self.awaiting_copy = self.copying = self.copy_due = False
        self.outputs.hold(from_level0=recovery == "rollback")
        self._do(e.Became("primary", self.epoch))
        if recovery == "gap":
            readers = {f"{stream}>{node}" for stream, queue in self.outputs.queues.items() for node in queue.readers}
            self.waiting = frozenset(self.inputs.streams) | readers
            if (
                self.line != above
                # another led since, and may have numbered anew: what this replica has cannot be told from what came
            ):
                self.missed = True
                self.outputs.begin(Cut(), Cut())
        if self.place.partner:
            self._send(self.place.partner, m.Announce(self.place.me, self.epoch))
        for node in self.place.downstream:
            for replica in self._replicas(node):
                self._announce_to(replica)
        for stream, one in self.inputs.streams.items():
            one.accepted, one.asked = False, -1
            self._resume(stream, m.FROM_NOW if recovery == "gap" else one.received)

    def _announce_to(self, replica: str) -> None:
        if self.place.standby.recovery == "rollback" and self.place.paired:
            node = node_of(replica)
            for queue in self.outputs.queues.values():
                if node in queue.readers and node not in self.place.topology.standby:
                    queue.readers[node].sent = queue.readers[node].received
        self._send(replica, m.Announce(self.place.me, self.epoch))

    # -- gap recovery
    # --------------------------------------------------------------------------------

    def _gap_answer(self, data: m.Data) -> bool:
        """Upstream says where the stream stands. True: the message is dealt with."""
        if data.stream not in self.waiting:
            return False
        self.waiting -= {data.stream}
        one = self.inputs.streams[data.stream]
        if data.first > one.fed or self.missed:
            self._do(
                e.Lost(data.stream, min(one.fed, data.mark.needed[data.stream]) if self.missed else one.fed, data.first)
            )
            self.missed = True
        one.fed = one.received = data.first
        self._accept(data.stream, data.first, data.end)
        self._gap_over()
        return True

    def _gap_reader(self, node: str, stream: str) -> None:
        if f"{stream}>{node}" in self.waiting:
            self.waiting -= {f"{stream}>{node}"}
            self._gap_over()

    def _gap_over(self) -> None:
        """Everybody has answered: if inputs were missed, begin with an empty operator, numbering behind all that any
        reader has."""
        if self.waiting:
            return
        self.line = self.epoch
        if not self.missed:
            return
        queues = self.outputs.queues
        ends = {
            stream: max(queue.end, *(one.sent or 0 for one in queue.readers.values()))
            for stream, queue in queues.items()
        }
        fed, received = self.inputs.fed, self.inputs.received
        here = Mark(Cut.of(ends), fed, fed, line=self.line, rests_on=self.outputs.rests_on)
        self.inputs.begin(here)
        for stream, one in self.inputs.streams.items():
            one.received = received[stream]  # what came while others had not answered
        self.outputs.begin(here.outputs)
        self.history, self.through, self.missed = (here,), here.through, False
        self._do(e.Reset(self.inputs.generation, here.needed, here.outputs))
        self.mark = here
        self._tell_mark()

    # -- stepping down, coming back
    # ------------------------------------------------------------------------------------------------

    def _on_fenced(self, fenced: m.Fenced) -> None:
        if fenced.of_epoch <= self.epoch:
            return
        if self.role == "primary" and self.place.topology.owner(self.place.node, fenced.of_epoch) == self.place.me:
            self._claim(fenced.of_epoch)  # that epoch was this replica's own, in an earlier life
        elif self.role == "primary":
            self._step_down(fenced.of_epoch)
        else:
            self.epoch = fenced.of_epoch

    def _step_down(self, epoch: int) -> None:
        """The partner leads. What this replica has worked out is still right (its results are the same), except after a
        gap."""
        was, self.role, self.epoch = self.role, "secondary", epoch
        self.waiting, self.copying, self.copy_due, self.missed = frozenset(), False, False, False
        self.outputs.hold(from_level0=False)
        self._do(e.Became("secondary", epoch))
        standby = self.place.standby
        if was == "primary" and (standby.passive or standby.recovery == "gap"):
            self._begin_anew(START)
            self.mark = START
            self.awaiting_copy = standby.passive or standby.returning == "copy"
            if self.place.partner:
                self._send(self.place.partner, m.Hello(self.place.me, epoch))
        if not self.awaiting_copy:
            for stream, one in self.inputs.streams.items():
                self._resume(stream, one.received)

    def _on_started(self, _: e.Started) -> None:
        if self.fresh and self.place.partner:
            self.awaiting_copy = self.place.standby.passive or self.place.standby.returning == "copy"
            self._send(self.place.partner, m.Hello(self.place.me, self.epoch))

    def _on_hello(self, hello: m.Hello) -> None:
        """The partner has no state. If it was the primary, it is so no more."""
        if self.role == "primary":
            self._send(hello.sender, m.Announce(self.place.me, self.epoch))
            if self.place.standby.passive or self.place.standby.returning == "copy":
                self.copy_due = True
        elif self.epoch and self.place.topology.owner(self.place.node, self.epoch) == hello.sender and not self.stuck:
            self._claim(max(self.epoch, hello.epoch))

    # -- copies of state
    # --------------------------------------------------------------------------------

    def _on_copy_now(self, _: e.CopyNow) -> None:
        self.copy_due = self.copy_due or (self.role == "primary" and self.place.standby.passive)

    def _take_copy(self) -> None:
        """If one is due. Not amid a replay: that state is no restart point."""
        ready = (
            self.role == "primary"
            and not self.waiting
            and not self.stuck
            and self.through.reaches(self.inputs.base.through)
        )
        if self.copy_due and ready and not self.copying:
            self.copy_due, self.copying = False, True
            self._do(e.TakeCopy(self.inputs.generation))

    def _on_copied(self, event: e.Copied) -> None:
        self.copying = False
        if event.generation != self.inputs.generation:
            self.copy_due = True
        elif self.role == "primary" and self.place.partner:
            mark = Mark(
                self.outputs.ends,
                event.through,
                event.through,
                copied=True,
                line=self.line,
                rests_on=self.outputs.rests_on,
            )
            self._send(self.place.partner, m.State(self.place.me, self.epoch, mark, self.outputs.starts))

    def _on_state(self, state: m.State) -> None:
        if state.epoch < self.epoch or self.role == "primary" or not state.mark.through.reaches(self.through):
            return
        self.epoch = state.epoch
        self._load(state.mark, state.kept)
        self._send(state.sender, m.StateAck(self.place.me, self.epoch, state.mark))
        if not self.place.standby.passive:
            for stream in self.inputs.streams:
                self._resume(stream, state.mark.through[stream])

    def _load(self, mark: Mark, kept: Cut) -> None:
        self.inputs.begin(mark)
        self.outputs.begin(mark.outputs, kept)
        self.history, self.through, self.line = (), mark.through, mark.line
        self.awaiting_copy, self.stuck = False, ""
        for node, below in mark.rests_on:
            self.outputs.level1(node, below)
        if self.place.standby.passive:
            self.mark = mark
        self._do(e.Load(self.inputs.generation, mark, kept))

    def _on_state_ack(self, ack: m.StateAck) -> None:
        if (
            self.role == "primary"
            and self.place.standby.passive
            and ack.epoch == self.epoch
            and ack.mark.not_before(self.mark)
        ):
            self.mark = ack.mark
            self._tell_mark()

    def _on_restored(self, event: e.Restored) -> None:
        """From the checkpoint on disk, both replicas having lost their state."""
        self._load(event.mark, event.kept)
        self._claim(self.epoch)
