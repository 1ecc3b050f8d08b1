"""Builds the note of a step: what the sink must know about it beside its results, as JSON.

The keys of the note are read by kigen.spark.sink (metrics, replay_check, batch_sink). Notes are not stored, but the
sink log keeps what the sink computes from them.
"""

from __future__ import annotations

import time
from typing import Any

from kigen.connectors import Range, Rows
from kigen.connectors.source_base import place_of_range
from kigen.connectors.values.missing_columns import Missing, merged_missing
from kigen.connectors.values.unknown_fields import Unknown, merged
from kigen.spark.operator.arrival_times import slotted

ReadRanges = list[tuple[Range, Rows]]


def step_note(
    result: Any, read: ReadRanges, payload: dict[str, Any], shed: dict[str, int], kept: dict[str, int]
) -> dict[str, Any]:
    """Describes a step by the kernel's `result`, the ranges that it read and its payload.

    `shed` counts the removed tuples per stream, including those that had no room in BUFFER. `kept` has the oldest
    offset per stream that a replay needs.
    """
    dropped = payload["dropped"]
    return {
        "admitted_us": payload["admitted_us"],
        "counts": result.counts,
        "finished": result.finished,
        "next_event_us": result.next_event_us,
        "positions": {piece.stream: piece.end for piece, _ in read},
        "checksums": _checksums(read),
        "skipped": _skipped(read),
        "unknown": _unknown(read),
        "missing": _missing(read),
        "shed": {stream: count - dropped.get(stream, 0) for stream, count in shed.items()},
        "dropped": dropped,
        "done_us": time.time_ns() // 1000,
        "arrivals": _arrivals(read, payload["admitted_us"]),
        "kept": kept,
    }


def _checksums(read: ReadRanges) -> dict[str, list[Any]]:
    """Returns the ranges of each stream in files, and the checksum of what was read in them."""
    found: dict[str, list[Any]] = {}
    for piece, rows in read:
        if rows.checksum is not None:
            found.setdefault(piece.stream, []).append([piece.end.get("file"), place_of_range(piece), rows.checksum])
    return found


def _skipped(read: ReadRanges) -> dict[str, Any]:
    """Returns the number of bad rows per stream, with the first few errors."""
    skipped: dict[str, Any] = {}
    for piece, rows in read:
        if rows.skipped:
            count, errors = skipped.get(piece.stream, (0, []))
            skipped[piece.stream] = count + rows.skipped, (errors + rows.errors)[:5]
    return skipped


def _unknown(read: ReadRanges) -> dict[str, Unknown]:
    """Returns, per stream, the fields that it does not declare, with the number of rows that have them."""
    found: dict[str, Unknown] = {}
    for piece, rows in read:
        if rows.unknown:
            found[piece.stream] = merged([found.get(piece.stream, {}), rows.unknown])
    return found


def _missing(read: ReadRanges) -> dict[str, Missing]:
    """Returns, per stream, the declared columns that files or batches do not have."""
    found: dict[str, Missing] = {}
    for piece, rows in read:
        if rows.missing:
            found[piece.stream] = merged_missing([found.get(piece.stream, {}), rows.missing])
    return found


def _arrivals(read: ReadRanges, admitted_us: int) -> dict[str, list[tuple[int, int]]]:
    """Returns (arrival, tuples) pairs per stream.

    Tuples of a log arrive when they are admitted. Those of a live source have arrival times of their own, in slots.
    """
    arrivals: dict[str, list[tuple[int, int]]] = {}
    for piece, rows in read:
        if not rows.table.num_rows:
            continue
        found = arrivals.setdefault(piece.stream, [])
        if rows.arrivals_us is None:
            found.append((admitted_us, rows.table.num_rows))
            continue
        found += slotted(rows.arrivals_us)
    return arrivals
