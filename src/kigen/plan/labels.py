"""Describes the clauses of a stream in a few words, as `explain` shows them."""

from __future__ import annotations

from kigen.plan.durations import duration_text
from kigen.plan.logical import SourceStream


def stream_text(stream: SourceStream) -> str:
    """A stream's clauses in a few words."""
    parts = [f"from {stream.source.name}"]
    if stream.timestamp is not None:
        parts.append(f"timestamp {stream.schema[stream.timestamp].name}")
    if stream.lateness_us:
        parts.append(f"lateness {duration_text(stream.lateness_us)}")
    if stream.ahead_us is not None:
        parts.append(f"ahead {duration_text(stream.ahead_us)}")
    if stream.on_error_skip:
        parts.append("skips bad rows")
    if stream.shed is not None:
        by = f" by {stream.shed.by.text}" if stream.shed.by is not None else ""
        parts.append(f"sheds above {stream.shed.above_per_second:g}/s{by}")
    if stream.buffer is not None:
        parts.append(f"buffer {stream.buffer}")
    return ", ".join(parts)
