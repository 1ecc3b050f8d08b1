"""The offset, and which ranges of logs go into the next micro-batch. What goes of live streams, a policy says
(kigen.spark.admission.scheduling).

Invariant: the decision lies wholly in the offset it returns, so that a replay is the same batch. Logs stay in step:
whatever is behind in event time goes first, so a task never holds more of one stream than a slice of a batch beyond the
others. A log is read by all its tasks together, a live stream by each at its own cursor. Cost: a few `advance` calls a
batch; nothing here touches tuples.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count, takewhile
from typing import Any

from kigen.connectors import Range, Source
from kigen.plan.tasks import Task
from kigen.spark.admission.live_queues import Cursors, Taken, queue_of, task_of

FORMAT = 3
QUICK_US, SLOW_US = 1_000_000, 4_000_000  # a batch of logs is to take about this long
SLICES = 4  # a batch is dealt to the streams in at least so many pieces: the finer, the closer they stay together

# JSON: v, seq, started_us, admitted_us; logs: {stream: {pos, ts, ended}} and the ranges of the batch; queues: {task:
# {stream: {index, progress, ended}}} and what each task takes in the batch: {task: {ranges, shed, dropped}}; a slice
# after the first is a task of its own here (`queue_of`), which also says {absent, until_us}: whom it passes over, and
# how far it goes in time
Offset = dict[str, Any]
Live = tuple[dict[str, Cursors], dict[str, Taken]]  # where the tasks stand after the batch, and what they take in it


class OffsetFormatError(ValueError):
    """An offset of another Kigen."""


def initial_offset(
    sources: dict[str, Source], tasks: Iterable[Task], started_us: int, slices: Mapping[str, int] | None = None
) -> Offset:
    """`slices`: of tasks whose slices run apart, how many."""
    logs = {
        name: {"pos": source.initial(), "ts": None, "ended": False}
        for name, source in sources.items()
        if not source.live
    }
    queues: dict[str, Any] = {}
    for task in tasks:
        live = [name for name in task.streams if sources[name].live]
        for place in range((slices or {}).get(task.name, 1) if live else 0):
            queues[queue_of(task.name, place)] = {name: {"index": 0, "progress": None, "ended": False} for name in live}
    clock = {"started_us": started_us, "admitted_us": started_us}
    return {"v": FORMAT, "seq": 0, **clock, "logs": logs, "ranges": [], "queues": queues, "taken": {}}


def check_format(offset: Offset) -> None:
    found = offset.get("v")
    if found != FORMAT:
        raise OffsetFormatError(
            f"offset format {FORMAT} required, found {found!r}: use the Kigen that wrote the checkpoint, or a new one"
        )


def batch_of(start: Offset, end: Offset, tasks: Iterable[Task]) -> dict[str, dict[str, Any]]:
    """What the batch from `start` to `end` holds for each task: its ranges as JSON, and what it passes over of each
    stream."""
    check_format(end)
    if end["seq"] == start["seq"]:
        return {}
    assert end["seq"] == start["seq"] + 1, f"offsets {start['seq']} and {end['seq']} are not neighbours"
    batch: dict[str, dict[str, Any]] = {}
    for task in tasks:
        mine = [piece for piece in end["ranges"] if piece["stream"] in task.streams]
        live = end["taken"].get(task.name, {"ranges": [], "shed": {}, "dropped": {}})
        later = _later(end["taken"], task.name)
        if mine or live["ranges"] or later:
            batch[task.name] = {**live, "ranges": mine + live["ranges"], **({"slices": later} if later else {})}
    return batch


def _later(taken: dict[str, Any], task: str) -> list[dict[str, Any]]:
    """What the slices after the first do, in their order."""
    queues = takewhile(taken.__contains__, (queue_of(task, place) for place in count(1)))
    return [taken[queue] for queue in queues]


def log_budget(start: Offset, batch_rows: int, largest_rows: int, now_us: int, shortest_us: int | None = None) -> int:
    """Tuples of logs for the next batch: twice the last while batches are quick (Spark's fixed cost then weighs
    little), half when slow.

    `shortest_us`: the shortest deadline that a batch may keep waiting; two batches must fit it."""
    before: int = sum(piece["rows"] or 0 for piece in start["ranges"])
    if not before or largest_rows <= batch_rows:
        return batch_rows
    quick_us, slow_us = (QUICK_US, SLOW_US) if shortest_us is None else (shortest_us // 4, shortest_us // 2)
    took_us = now_us - start["admitted_us"]
    wanted = (
        before * 2 if took_us < min(quick_us, QUICK_US) else before // 2 if took_us > min(slow_us, SLOW_US) else before
    )
    return min(max(wanted, batch_rows // 4 if shortest_us is None else 1000), largest_rows)


def next_offset(
    start: Offset, logs: dict[str, Source], budget: int, now_us: int, live: Live | None = None, closing: bool = False
) -> Offset:
    """The offset after `start`, with what live streams bring; `start` itself when nothing is to be done now."""
    queues, got = live or (start["queues"], {})
    states = copy.deepcopy(start["logs"])
    ranges = (
        [_end_here(name, state) for name, state in states.items() if not state["ended"]]
        if closing
        else _log_ranges(logs, states, budget)
    )
    if not ranges and not got:
        return start
    taken = {queue: mine.to_json(later=task_of(queue) != queue) for queue, mine in got.items()}
    changed = {"logs": states, "ranges": [piece.to_json() for piece in ranges], "queues": queues, "taken": taken}
    return {**start, "seq": start["seq"] + 1, "admitted_us": now_us, **changed}


def _end_here(name: str, state: dict[str, Any]) -> Range:
    state["ended"] = True
    return Range(name, state["pos"], state["pos"], rows=0, ended=True)


def _log_ranges(sources: dict[str, Source], streams: dict[str, dict[str, Any]], budget: int) -> list[Range]:
    """Always the stream that is behind, a slice at a time, until the batch is full."""
    ranges: list[Range] = []
    waiting = {name for name in sources if not streams[name]["ended"]}
    portion = max(1, budget // (SLICES * len(waiting))) if len(waiting) > 1 else budget
    while waiting and budget > 0:
        name = min(waiting, key=lambda n: (streams[n]["ts"] is not None, streams[n]["ts"] or 0, n))
        piece = sources[name].advance(streams[name]["pos"], min(portion, budget))
        if piece.start == piece.end and not piece.ended:
            waiting.discard(name)  # nothing there now
            continue
        _apply(streams[name], piece)
        ranges.append(piece)
        budget -= piece.rows or 0
        if piece.ended:
            waiting.discard(name)
    return joined(ranges)


def joined(ranges: list[Range]) -> list[Range]:
    """Pieces of one stream that follow each other in one file, as one: fewer reads, and less to remember."""
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


def _apply(state: dict[str, Any], piece: Range) -> None:
    state["pos"], state["ended"] = piece.end, piece.ended
    if piece.last_ts_us is not None:
        state["ts"] = piece.last_ts_us
