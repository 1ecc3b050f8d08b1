"""What a step's input lost on its way: tuples that SHED let go and tuples that a task passed over, counted; the former
also `INTO` a sink.

Every task that reads a stream loses the same tuples to SHED; the first of them writes them down.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kigen.connectors import Range, Rows
from kigen.spark.operator.range_reader import RangeReader
from kigen.spark.spec import RunSpec


def shed_output_name(stream: str) -> str:
    """The name of a stream's shed tuples among the outputs: no query can have it."""
    return f"shed {stream}"


def removed_tuples(
    spec: RunSpec, task: str, read: list[tuple[Range, Rows]], passed: dict[str, Any], reading: RangeReader
) -> tuple[dict[str, int], dict[str, pa.Table]]:
    """Of each stream, how many tuples went; and those to be written down, as lines of a stream."""
    counts: dict[str, int] = {stream: end - first for stream, (first, end) in passed.items()}
    tables: dict[str, list[pa.Table]] = {}
    for stream, (first, end) in passed.items():
        shed = spec.app.stream(stream).shed
        if shed is not None and shed.into is not None and _writer(spec, stream) == task:
            gone = reading.shed_of(stream, first, end)
            tables.setdefault(stream, []).extend([] if gone is None else [gone])
    for piece, rows in read:
        if rows.shed is None or not rows.shed.num_rows:
            continue
        counts[piece.stream] = counts.get(piece.stream, 0) + rows.shed.num_rows
        shed = spec.app.stream(piece.stream).shed
        if shed is not None and shed.into is not None and _writer(spec, piece.stream) == task:
            tables.setdefault(piece.stream, []).append(rows.shed)
    lines = {
        stream: pa.concat_tables(parts) for stream, parts in tables.items() if sum(part.num_rows for part in parts)
    }
    return counts, {stream: table.rename_columns([*table.column_names[:-1], "_at"]) for stream, table in lines.items()}


def _writer(spec: RunSpec, stream: str) -> str:
    return next(task.name for task in spec.tasks if stream in task.streams)
