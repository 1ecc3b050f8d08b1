"""Which ranges of which streams go into the next micro-batch.

Invariant: the decision lies wholly in the offset it returns, so that a replay is the same batch. Streams stay in step: whatever is
behind in event time goes first, so a task never holds more of one stream than a slice of a batch beyond the others.
Cost: a few `advance` calls a batch; nothing here touches tuples.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from kigen.connectors import Range, Source

FORMAT = 1
QUICK_US, SLOW_US = 1_000_000, 4_000_000  # a batch of logs is to take about this long
SLICES = 4  # a batch is dealt to the streams in at least so many pieces: the finer, the closer they stay together

Offset = dict[str, Any]  # JSON: v, seq, started_us, admitted_us, streams: {name: {pos, ts, ended, progress}}, ranges: [Range]


class OffsetFormatError(ValueError):
    """An offset of another Kigen."""


def initial_offset(sources: dict[str, Source], started_us: int) -> Offset:
    streams = {name: {"pos": source.initial(), "ts": None, "ended": False, "progress": None} for name, source in sources.items()}
    return {"v": FORMAT, "seq": 0, "started_us": started_us, "admitted_us": started_us, "streams": streams, "ranges": []}


def check_format(offset: Offset) -> None:
    found = offset.get("v")
    if found != FORMAT:
        raise OffsetFormatError(f"offset format {FORMAT} required, found {found!r}: use the Kigen that wrote the checkpoint, or a new one")


def ranges_between(start: Offset, end: Offset) -> list[Range]:
    """What the batch from `start` to `end` holds."""
    check_format(end)
    if end["seq"] == start["seq"]:
        return []
    assert end["seq"] == start["seq"] + 1, f"offsets {start['seq']} and {end['seq']} are not neighbours"
    return [Range.from_json(piece) for piece in end["ranges"]]


@dataclass(frozen=True)
class Clock:
    now_us: int
    next_event_us: int | None = None  # the earliest known death: when it has passed, a result changes though nothing arrived
    lateness_us: dict[str, int] = field(default_factory=dict)  # of each stream: its time runs so far behind its clock
    closing: bool = False  # the run's time is over: every stream ends here


def log_budget(start: Offset, batch_rows: int, largest_rows: int, now_us: int) -> int:
    """Tuples of logs for the next batch: twice the last while batches are quick (Spark's fixed cost then weighs little), half when slow."""
    before: int = sum(piece["rows"] or 0 for piece in start["ranges"] if piece["progress_us"] is None)
    if not before or largest_rows <= batch_rows:
        return batch_rows
    took_us = now_us - start["admitted_us"]
    wanted = before * 2 if took_us < QUICK_US else before // 2 if took_us > SLOW_US else before
    return min(max(wanted, batch_rows // 4), largest_rows)


def next_offset(sources: dict[str, Source], start: Offset, batch_rows: int, clock: Clock) -> Offset:
    """The offset after `start`; `start` itself when nothing is to be done now."""
    streams = {name: dict(state) for name, state in start["streams"].items()}
    ranges = _live_ranges(sources, streams, batch_rows, clock)
    if not clock.closing:
        ranges += _log_ranges(sources, streams, batch_rows)
    else:
        ranges += [_end_here(name, state) for name, state in streams.items() if not state["ended"]]
    if not ranges:
        return start
    ranges_json = [piece.to_json() for piece in ranges]
    return {**start, "seq": start["seq"] + 1, "admitted_us": clock.now_us, "streams": streams, "ranges": ranges_json}


def _end_here(name: str, state: dict[str, Any]) -> Range:
    state["ended"] = True
    return Range(name, state["pos"], state["pos"], rows=0, progress_us=state["progress"], ended=True)


def _log_ranges(sources: dict[str, Source], streams: dict[str, dict[str, Any]], budget: int) -> list[Range]:
    """Always the stream that is behind, a slice at a time, until the batch is full."""
    ranges: list[Range] = []
    waiting = {name for name, source in sources.items() if not source.live and not streams[name]["ended"]}
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


def _live_ranges(sources: dict[str, Source], streams: dict[str, dict[str, Any]], budget: int, clock: Clock) -> list[Range]:
    """All that has arrived; with it, or when a known death is due, the progress of every live stream, idle ones too."""
    live = [name for name, source in sources.items() if source.live and not streams[name]["ended"]]
    pieces = {name: sources[name].advance(streams[name]["pos"], budget, clock.now_us) for name in live}
    arrived = any(p.start != p.end or p.ended for p in pieces.values())
    if not arrived and not any(_passes_event(clock, streams[name]["progress"], piece) for name, piece in pieces.items()):
        return []
    for name, piece in pieces.items():
        _apply(streams[name], piece)
    return list(pieces.values())


def _passes_event(clock: Clock, before_us: int | None, piece: Range) -> bool:
    """Whether this stream's time passes the event with this batch: each stream does so once."""
    if clock.next_event_us is None or piece.progress_us is None:
        return False
    due_us = clock.next_event_us + clock.lateness_us.get(piece.stream, 0)
    return piece.progress_us >= due_us and (before_us is None or before_us < due_us)


def _apply(state: dict[str, Any], piece: Range) -> None:
    state["pos"], state["ended"] = piece.end, piece.ended
    if piece.last_ts_us is not None:
        state["ts"] = piece.last_ts_us
    if piece.progress_us is not None:
        state["progress"] = piece.progress_us
