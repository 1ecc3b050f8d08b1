"""Counts the tuples that a step's input lost, and gives those to outputs that have one (kigen.plan.dropped_rows).

SHED removes tuples, and a task may skip some. Rows that cannot be read go to `ON ERROR INTO`, late ones to `LATE INTO`.
Every task that reads a stream loses the same rows, so only the first of these tasks writes them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.connectors import Range, Rows
from kigen.connectors.source_base import BadRow, place_text
from kigen.lifetimes.late_rows import BEHIND, PLACE
from kigen.plan.dropped_rows import error_output_name, late_output_name
from kigen.plan.logical import SourceStream
from kigen.spark.admission.live_queues import spans
from kigen.spark.operator.range_reader import RangeReader
from kigen.spark.spec import RunSpec


def removed_tuples(
    spec: RunSpec, task: str, read: list[tuple[Range, Rows]], skipped: dict[str, Any], reader: RangeReader
) -> tuple[dict[str, int], dict[str, pa.Table]]:
    """Returns how many tuples each stream lost, and the tables to write, with `_at` like results of a stream.

    `skipped` has, per stream, the offsets that the task skips: first and end of each span in turn.
    """
    each = [(stream, first, end) for stream, bounds in skipped.items() for first, end in spans(bounds)]
    counts: dict[str, int] = {}
    tables: dict[str, list[pa.Table]] = {}
    for stream, first, end in each:
        counts[stream] = counts.get(stream, 0) + end - first
        shed = spec.app.stream(stream).shed
        if shed is None:
            continue
        writes, more = shed.into is not None and _writer(spec, stream) == task, reader.has_shed(stream)
        gone = reader.shed_of(stream, first, end) if writes or more else None
        if gone is not None:
            counts[stream] += gone.num_rows if more else 0  # these have no offsets of their own
            tables.setdefault(stream, []).extend([gone] if writes else [])
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


def dropped_rows(
    spec: RunSpec, task: str, read: list[tuple[Range, Rows]], late: dict[str, pa.Table], admitted_us: int
) -> dict[str, pa.Table]:
    """Returns the rows for ON ERROR INTO and LATE INTO, by the name of their output."""
    found: dict[str, list[pa.Table]] = {}
    for piece, rows in read:
        if rows.bad and _writer(spec, piece.stream) == task:
            found.setdefault(error_output_name(piece.stream), []).append(_bad_table(rows.bad, admitted_us))
    for stream, table in late.items():
        if _writer(spec, stream) == task:
            found.setdefault(late_output_name(stream), []).append(_late_table(table, spec.app.stream(stream)))
    return {name: pa.concat_tables(tables) for name, tables in found.items()}


def with_places(read: list[tuple[Range, Rows]], spec: RunSpec) -> list[tuple[Range, Rows]]:
    """Adds to the rows of streams with LATE INTO where they came from."""
    return [
        (piece, rows)
        if spec.app.stream(piece.stream).late_into is None or rows.given is not None
        else (piece, replace(rows, table=_with_place(rows.table, place_text(piece))))
        for piece, rows in read
    ]


def _with_place(table: pa.Table, place: str) -> pa.Table:
    indices = pa.array(np.zeros(table.num_rows, np.int32))
    return table.append_column(PLACE, pa.DictionaryArray.from_arrays(indices, pa.array([place], pa.string())))


def _bad_table(bad: tuple[BadRow, ...], admitted_us: int) -> pa.Table:
    texts = [[row.text for row in bad], [row.place for row in bad], [row.reason for row in bad]]
    columns = [pa.array(values, pa.string()) for values in texts]
    return pa.table([*columns, pa.array([admitted_us] * len(bad), pa.int64())], names=["c0", "c1", "c2", "_at"])


def _late_table(late: pa.Table, stream: SourceStream) -> pa.Table:
    allowed = f"LATENESS is {stream.lateness_us / 1e6:g} s"
    reasons = [
        f"{behind / 1e6:g} s behind the newest timestamp; {allowed}" for behind in late.column(BEHIND).to_pylist()
    ]
    count = len(stream.schema)
    columns = [*(late.column(f"c{i}") for i in range(count)), late.column(PLACE), pa.array(reasons, pa.string())]
    names = [*(f"c{i}" for i in range(count + 2)), "_at"]
    return pa.table([*columns, late.column("_ts")], names=names)
