"""The output queues of a replica, as offsets: what is kept, and for each reader what was sent, batched, acknowledged.

A result is kept until every reader has released it. A reader that nobody backs releases what it has received durably
(Level-0); one with a standby releases what is dead in all its windows (Level-1): its secondary may still need the rest,
even if this node and the reader's primary die together. What is released before it filled a batch is never sent to the
secondary: that is why larger batches cost less. Cost: a step is O(streams x readers), whatever the number of tuples.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kigen_lab.simulate.standby.machine.cuts import START, Cut, Mark
from kigen_lab.simulate.standby.machine.topology import Place


@dataclass
class Reader:
    sent: int | None = 0  # next for its primary; None: not before it says where to resume
    batched: int | None = 0  # next for its secondary
    received: int = 0  # Level-0
    mark: Mark = START  # Level-1


@dataclass
class Queue:
    first: int = 0  # the oldest that this replica ever had, since its last new beginning
    end: int = 0
    readers: dict[str, Reader] = field(default_factory=dict)


@dataclass(frozen=True)
class Range:
    """Tuples to send: `start` is the oldest that could be sent."""

    stream: str
    reader: str
    first: int
    end: int
    start: int
    backup: bool


class Outputs:
    def __init__(self, place: Place) -> None:
        self.place = place
        self.queues = {
            name: Queue(readers={reader: Reader() for reader in readers}) for name, readers in place.outputs.items()
        }

    def released(self, stream: str, reader: str) -> int:
        queue = self.queues[stream]
        one = queue.readers[reader]
        said = one.mark.needed[stream] if reader in self.place.topology.standby else one.received
        return max(queue.first, said)

    def start(self, stream: str) -> int:
        queue = self.queues[stream]
        return min((self.released(stream, reader) for reader in queue.readers), default=queue.end)

    @property
    def starts(self) -> Cut:
        return Cut.of({stream: self.start(stream) for stream in self.queues})

    @property
    def ends(self) -> Cut:
        return Cut.of({stream: queue.end for stream, queue in self.queues.items()})

    @property
    def rests_on(self) -> tuple[tuple[str, Mark], ...]:
        marks = {
            node: one.mark
            for queue in self.queues.values()
            for node, one in queue.readers.items()
            if node in self.place.topology.standby
        }
        return tuple(sorted(marks.items()))

    def produced(self, results: Cut) -> None:
        for stream, count in results:
            self.queues[stream].end += count

    def level0(self, reader: str, stream: str, received: int) -> None:
        one = self.queues[stream].readers[reader]
        one.received = max(one.received, received)

    def level1(self, reader: str, mark: Mark) -> None:
        for queue in self.queues.values():
            one = queue.readers.get(reader)
            if one is not None and mark.not_before(one.mark):
                one.mark = mark

    def begin(self, outputs: Cut, kept: Cut | None = None) -> None:
        """Go on at `outputs`; of what lies before, the results from `kept` on are there (None: those that already
        were)."""
        for stream, queue in self.queues.items():
            if kept is not None:
                queue.first = kept[stream]
            elif outputs[stream] > queue.end:
                queue.first = outputs[stream]
            queue.first = min(queue.first, outputs[stream])
            queue.end = outputs[stream]

    def hold(self, from_level0: bool) -> None:
        """Send nothing before the readers say where; or, rollback, what is not known to have arrived, without asking
        those nobody backs."""
        for queue in self.queues.values():
            for node, one in queue.readers.items():
                one.batched = None
                one.sent = one.received if from_level0 and node not in self.place.topology.standby else None

    def forget(self, reader: str) -> None:
        """The reader has another primary: it will say where to resume."""
        for queue in self.queues.values():
            if reader in queue.readers:
                queue.readers[reader].sent = queue.readers[reader].batched = None

    def due(self) -> list[Range]:
        """What the readers' primaries, and with full batches their secondaries, are to be sent."""
        found = []
        for stream, queue in self.queues.items():
            for node, one in queue.readers.items():
                start = self.released(stream, node)
                if one.sent is not None and max(one.sent, start) < queue.end:
                    found.append(Range(stream, node, max(one.sent, start), queue.end, start, backup=False))
                    one.sent = queue.end
                if one.batched is not None and node in self.place.topology.standby:
                    first, size = max(one.batched, start), self.place.topology.standby[node].batch_size
                    if queue.end - first >= size:
                        one.batched = first + int((queue.end - first) // size * size)
                        found.append(Range(stream, node, first, one.batched, start, backup=True))
        return found

    def clone(self) -> Outputs:
        other = Outputs.__new__(Outputs)
        other.place = self.place
        other.queues = {
            name: Queue(queue.first, queue.end, {node: replace(one) for node, one in queue.readers.items()})
            for name, queue in self.queues.items()
        }
        return other

    def key(self) -> tuple[object, ...]:
        return tuple(
            (
                queue.first,
                queue.end,
                *((one.sent, one.batched, one.received, one.mark) for one in queue.readers.values()),
            )
            for queue in self.queues.values()
        )
