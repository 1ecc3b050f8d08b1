"""Counts the tuples that a step's input lost: those that SHED removed and those that the task skipped.

The former are also written to the sink of `SHED ... INTO`. Every task that reads a stream loses the same tuples to
SHED, so only the first of these tasks writes them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kigen.connectors import Range, Rows
from kigen.spark.operator.range_reader import RangeReader
from kigen.spark.spec import RunSpec


def shed_output_name(stream: str) -> str:
    """Returns the name of the output for a stream's shed tuples. No query can have this name."""
    return f"shed {stream}"


def removed_tuples(
    spec: RunSpec, task: str, read: list[tuple[Range, Rows]], skipped: dict[str, Any], reader: RangeReader
) -> tuple[dict[str, int], dict[str, pa.Table]]:
    """Returns how many tuples each stream lost, and the tables to write, with `_at` like results of a stream.

    `skipped` has, per stream, the offsets that the task skips.
    """
    counts: dict[str, int] = {stream: end - first for stream, (first, end) in skipped.items()}
    tables: dict[str, list[pa.Table]] = {}
    for stream, (first, end) in skipped.items():
        shed = spec.app.stream(stream).shed
        if shed is not None and shed.into is not None and _writer(spec, stream) == task:
            gone = reader.shed_of(stream, first, end)
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
