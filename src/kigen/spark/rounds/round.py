"""Defines `Round`: what the lane of a run does next, as admission decides it and the round log records it.

Invariant: a round holds the whole decision, so that a replay makes the same step. Rounds of a lane are numbered from 1
in each epoch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import Any

from kigen.connectors.source_base import quoted
from kigen.plan.tasks import Task
from kigen.spark.admission.live_queues import Bounds, Cursors, queue_of, spans, task_of

Json = dict[str, Any]
_NOTHING: Json = {"ranges": [], "shed": {}, "dropped": {}}


@dataclass(frozen=True)
class Round:
    """One decision: ranges of logs, and what each queue gives (`TaskInput.encoded`).

    `last`: the epoch ends here, and the tasks in `moves` go on in other lanes.
    """

    number: int
    admitted_us: int
    ranges: list[Json] = field(default_factory=list)
    taken: dict[str, Json] = field(default_factory=dict)
    last: bool = False
    moves: dict[str, int] = field(default_factory=dict)  # task -> lane

    def encoded(self, taken: Mapping[str, str] | None = None) -> bytes:
        """Returns the JSON. `taken` is the JSON of what each queue gives, where only that is at hand."""
        if taken is None:
            taken = {queue: json.dumps(given) for queue, given in self.taken.items()}
        body = ", ".join([f"{quoted(queue)}: {given}" for queue, given in taken.items()])
        text = (
            f'{{"number": {self.number}, "admitted_us": {self.admitted_us}, "ranges": {json.dumps(self.ranges)}, '
            f'"taken": {{{body}}}, "last": {json.dumps(self.last)}, "moves": {json.dumps(self.moves)}}}'
        )
        return text.encode()

    @staticmethod
    def from_json(value: Json) -> Round:
        return Round(**value)

    @staticmethod
    def decoded(text: bytes) -> Round:
        return Round.from_json(json.loads(text))


@dataclass(frozen=True)
class LoggedRound:
    """A round as admission keeps it: its JSON, and the little that admission asks of it later.

    Its hundreds of objects would be visited by collections of garbage as long as it is kept.
    """

    text: bytes
    admitted_us: int
    rows: int  # tuples that it reads
    last: bool
    moves: dict[str, int]

    @staticmethod
    def of(entry: Round) -> LoggedRound:
        pieces = [*entry.ranges, *(piece for given in entry.taken.values() for piece in given["ranges"])]
        rows = sum(piece["rows"] or 0 for piece in pieces)
        return LoggedRound(entry.encoded(), entry.admitted_us, rows, entry.last, entry.moves)

    @property
    def entry(self) -> Round:
        return Round.decoded(self.text)


def contents(ranges: list[Json], taken: dict[str, Json], tasks: Iterable[Task]) -> dict[str, Json]:
    """Returns the input of each task: its ranges, and what it skips of streams. Leaves out tasks without input."""
    batch: dict[str, Json] = {}
    for task in tasks:
        mine = [piece for piece in ranges if piece["stream"] in task.streams]
        live = taken.get(task.name, _NOTHING)
        later = _later_slices(taken, task.name)
        if mine or live["ranges"] or later:
            batch[task.name] = {**live, "ranges": mine + live["ranges"], **({"slices": later} if later else {})}
    return batch


def _later_slices(taken: dict[str, Json], task: str) -> list[Json]:
    """Returns the input of the slices after the first, in their order."""
    queues = takewhile(taken.__contains__, (queue_of(task, place) for place in count(1)))
    return [taken[queue] for queue in queues]


def advance_cursors(queues: dict[str, Cursors], taken: dict[str, Json]) -> None:
    """Moves the cursors of the queues to where a round has read them."""
    for queue, given in taken.items():
        if queue not in queues:
            continue  # of a task that a change of the app has dropped
        for piece in given["ranges"]:
            cursor = queues[queue][piece["stream"]]
            cursor.update(index=piece["end"]["index"], progress=piece["progress_us"], ended=piece["ended"])
            if len(piece["end"]) > 1:  # the source has positions of its own
                cursor["at"] = piece["end"]
    note_skipped(queues, {queue: given["shed"] for queue, given in taken.items()})


def note_skipped(queues: dict[str, Cursors], shed: Mapping[str, Mapping[str, Bounds]]) -> None:
    """Notes what slices have skipped, in their cursors, as long as a later slice has not come by.

    A later slice must skip it, too. `shed` is what each queue has skipped in a round.
    """
    for task in {task_of(queue) for queue in shed if task_of(queue) != queue}:
        mine = [queue for queue in queues if task_of(queue) == task]
        for stream in queues[task]:
            passed = min(queues[queue][stream]["index"] for queue in mine)
            for queue in mine:
                cursor, new = queues[queue][stream], shed.get(queue, {}).get(stream, ())
                kept = [span for span in spans((*cursor.pop("skipped", ()), *new)) if span[1] > passed]
                if kept:
                    cursor["skipped"] = [bound for span in kept for bound in span]
