"""The offset of a run, and the decision which ranges of logs go into the next batch.

For live streams, a policy decides (kigen.spark.admission.scheduling). Invariant: the offset holds the whole decision,
so that a replay is the same batch. Logs stay in step: the log that is behind in event time goes first, so a task never
holds more of one stream than a slice of a batch beyond the others. All tasks read a log together; each task reads a
live stream at its own cursor. Cost: a few `advance` calls per batch; nothing here touches tuples.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from kigen.connectors import Position, Range, Source
from kigen.plan.tasks import Task
from kigen.spark.admission.live_queues import Cursors, TaskInput, queue_of, task_of
from kigen.spark.rounds.round import contents

FORMAT = 3
QUICK_US, SLOW_US = 1_000_000, 4_000_000  # a batch of logs should take between these times
SLICES = 4  # a batch is dealt to the streams in at least so many pieces: the finer, the closer they stay together

Json = dict[str, Any]
# The cursors of all queues after a batch, and what each task reads in it.
LiveDecision = tuple[dict[str, Cursors], dict[str, TaskInput]]


class OffsetFormatError(ValueError):
    """An offset in a checkpoint has the format of another version of Kigen. `kigen` exits with code 2."""


class LogPosition(TypedDict):
    """Position in one log: where reading continues, the last timestamp, and whether the log has ended."""

    pos: Position
    ts: int | None
    ended: bool


class LaneStart(TypedDict):
    """A lane at the start of an epoch: its tasks, and its positions in logs. Each lane reads logs for itself."""

    tasks: list[str]
    logs: dict[str, LogPosition]
    adopted: list[str]  # tasks of it that another lane had in the epoch before


@dataclass(frozen=True)
class Offset:
    """Position of a run in all its streams after a batch, and the content of that batch. Spark keeps it as JSON.

    With `lanes`, the batch is an epoch of many rounds. The offset is written before the first of them, so it has the
    positions at the start of the epoch, and the round log has the rest (kigen.spark.rounds.round_log).

    `queues` has the cursors of each queue, and `taken` what each queue gives to the batch, as `TaskInput.encoded`
    writes it. A slice after the first has a queue of its own (`queue_of`); its input also has `absent`, the tuples
    that it skips, and `until_us`, the time up to which it runs. The cursor of a slice has `skipped`, the offsets that
    it has skipped and a later slice has not reached (kigen.spark.rounds.round).
    """

    seq: int  # number of the batch; 0: before the first
    started_us: int  # when the first run on the checkpoint began: live streams count from it
    admitted_us: int  # when the batch was admitted
    logs: dict[str, LogPosition]
    ranges: list[Json]  # ranges of logs in the batch, as `Range.to_json` writes them
    queues: dict[str, Cursors]
    taken: dict[str, Json]
    lanes: list[LaneStart] | None = None

    def to_json(self) -> Json:
        """Converts to JSON. Spark compares offsets as text: the order of the keys is fixed."""
        body = {
            "v": FORMAT,
            "seq": self.seq,
            "started_us": self.started_us,
            "admitted_us": self.admitted_us,
            "logs": self.logs,
            "ranges": self.ranges,
            "queues": self.queues,
            "taken": self.taken,
        }
        return body if self.lanes is None else {**body, "lanes": self.lanes}

    @staticmethod
    def from_json(value: Json) -> Offset:
        """Reads an offset. Raises OffsetFormatError if another version of Kigen wrote it."""
        found = value.get("v")
        if found != FORMAT:
            raise OffsetFormatError(
                f"offset format {FORMAT} required, found {found!r}: use the Kigen that wrote the checkpoint, or start "
                "with a new checkpoint"
            )
        return Offset(
            value["seq"],
            value["started_us"],
            value["admitted_us"],
            value["logs"],
            value["ranges"],
            value["queues"],
            value["taken"],
            value.get("lanes"),
        )


def initial_offset(
    sources: dict[str, Source], tasks: Iterable[Task], started_us: int, slices: Mapping[str, int] | None = None
) -> Offset:
    """Returns the offset before the first batch. `slices` counts the slices of tasks whose slices run separately."""
    logs: dict[str, LogPosition] = {
        name: {"pos": source.initial(), "ts": None, "ended": False}
        for name, source in sources.items()
        if not source.live
    }
    queues: dict[str, Cursors] = {}
    for task in tasks:
        live = [name for name in task.streams if sources[name].live]
        for place in range((slices or {}).get(task.name, 1) if live else 0):
            queues[queue_of(task.name, place)] = {name: first_cursor(sources[name].initial()) for name in live}
    return Offset(0, started_us, started_us, logs, [], queues, {})


def first_cursor(initial: Position) -> Json:
    """Returns the cursor of a task before the first batch, with the position of a source that has positions."""
    at = {"at": initial} if len(initial) > 1 else {}
    return {"index": 0, "progress": None, "ended": False, **at}


def batch_of(start: Offset, end: Offset, tasks: Iterable[Task]) -> dict[str, Json]:
    """Returns the content of the batch from `start` to `end` per task: its ranges, and what it skips of streams."""
    if end.seq == start.seq:
        return {}
    assert end.seq == start.seq + 1, f"offsets {start.seq} and {end.seq} are not neighbours"
    return contents(end.ranges, end.taken, tasks)


def log_budget(start: Offset, batch_rows: int, largest_rows: int, now_us: int, shortest_us: int | None = None) -> int:
    """Returns how many tuples of logs the next batch may hold.

    It doubles while batches are quick, so that Spark's fixed cost weighs little, and halves when they are slow.
    `shortest_us` is the shortest deadline that a batch may delay: two batches must fit it.
    """
    before: int = sum(piece["rows"] or 0 for piece in start.ranges)
    return next_budget(before, now_us - start.admitted_us, batch_rows, largest_rows, shortest_us)


def next_budget(before: int, took_us: int, batch_rows: int, largest_rows: int, shortest_us: int | None) -> int:
    """Returns the budget after a batch, or a round, that took so long with `before` tuples of logs."""
    if not before or largest_rows <= batch_rows:
        return batch_rows
    quick_us, slow_us = (QUICK_US, SLOW_US) if shortest_us is None else (shortest_us // 4, shortest_us // 2)
    wanted = before
    if took_us < min(quick_us, QUICK_US):
        wanted = before * 2
    elif took_us > min(slow_us, SLOW_US):
        wanted = before // 2
    return min(max(wanted, batch_rows // 4 if shortest_us is None else 1000), largest_rows)


def next_offset(
    start: Offset,
    logs: dict[str, Source],
    budget: int,
    now_us: int,
    live: LiveDecision | None = None,
    closing: bool = False,
) -> Offset:
    """Returns the offset after `start`, with the input from live streams; `start` itself if no batch is due.

    `closing`: the time of the run is over, and each log ends where it is.
    """
    queues, inputs = live or (start.queues, {})
    positions = copy.deepcopy(start.logs)
    ranges = take_log_ranges(logs, positions, budget, closing)
    if not ranges and not inputs:
        return start
    taken = {queue: json.loads(mine.encoded(later=task_of(queue) != queue)) for queue, mine in inputs.items()}
    pieces = [piece.to_json() for piece in ranges]
    return Offset(start.seq + 1, start.started_us, now_us, positions, pieces, queues, taken)


def take_log_ranges(
    logs: dict[str, Source], positions: dict[str, LogPosition], budget: int, closing: bool
) -> list[Range]:
    """Returns the ranges of logs that go next, and moves the positions. `closing`: each log ends where it is."""
    return _end_all(positions) if closing else _log_ranges(logs, positions, budget)


def _end_all(positions: dict[str, LogPosition]) -> list[Range]:
    ranges: list[Range] = []
    for name, position in positions.items():
        if not position["ended"]:
            position["ended"] = True
            ranges.append(Range(name, position["pos"], position["pos"], rows=0, ended=True))
    return ranges


def _log_ranges(sources: dict[str, Source], positions: dict[str, LogPosition], budget: int) -> list[Range]:
    """Takes a slice of the log that is furthest behind, again and again, until the batch is full."""
    ranges: list[Range] = []
    waiting = {name for name in sources if not positions[name]["ended"]}
    portion = max(1, budget // (SLICES * len(waiting))) if len(waiting) > 1 else budget
    while waiting and budget > 0:
        name = min(waiting, key=lambda n: (positions[n]["ts"] is not None, positions[n]["ts"] or 0, n))
        piece = sources[name].advance(positions[name]["pos"], min(portion, budget))
        if piece.start == piece.end and not piece.ended:
            waiting.discard(name)  # nothing new for now
            continue
        _advance(positions[name], piece)
        ranges.append(piece)
        budget -= piece.rows or 0
        if piece.ended:
            waiting.discard(name)
    return joined(ranges)


def joined(ranges: list[Range]) -> list[Range]:
    """Joins ranges of one stream that follow each other in one file: fewer reads, and a smaller offset."""
    last: dict[str, int] = {}
    out: list[Range] = []
    for piece in ranges:
        at = last.get(piece.stream)
        before = None if at is None else out[at]
        if before is not None and before.end == piece.start and before.end.get("file") == piece.end.get("file"):
            assert at is not None
            rows = None if before.rows is None or piece.rows is None else before.rows + piece.rows
            out[at] = replace(piece, start=before.start, rows=rows)
        else:
            last[piece.stream] = len(out)
            out.append(piece)
    return out


def _advance(position: LogPosition, piece: Range) -> None:
    position["pos"], position["ended"] = piece.end, piece.ended
    if piece.last_ts_us is not None:
        position["ts"] = piece.last_ts_us
