"""Lays out the rows of groups in order, at every instant at which a group changes, and finds the copies whose values
differ from one instant to the next.

A *segment* is a group between two of its changes: the first is the group before the step, then comes one per instant.
A *cell* is a row in a segment, with its number of live copies; a *place* is one live copy in a segment. Values are kept
as integers, so that they can be compared: numbers themselves, and ranks of the different values that LAG and LEAD look
at. Cost: vector passes over all places, and one sort of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import Ints, Mask, take_columns
from kigen.lifetimes.live_tuples import expand
from kigen.lifetimes.sweeps.row_order import key_changes, ranked, row_ranks
from kigen.lifetimes.sweeps.sweep import Runs, changes, group_runs
from kigen.plan.logical import Over, OverCall, OverFunc


@dataclass(frozen=True)
class GroupRows:
    """The different rows of groups, in order of group and place."""

    slot: Ints
    group: Ints  # from 0 on
    alive: Ints  # copies before the step
    ties: Ints  # rows of a group with equal keys have one number
    columns: pa.RecordBatch

    @staticmethod
    def of(node: Over, slot: Ints, group: Ints, columns: pa.RecordBatch, alive: Ints) -> GroupRows:
        ranks = row_ranks(columns.columns, node.order, np.zeros(len(slot), dtype=np.int64))
        order = np.lexsort((ranks, group))
        columns = take_columns(columns, order)
        begins = changes(group[order])
        new_key = key_changes(columns.columns, node.order[: node.keys], len(order))
        ties: Ints = np.cumsum(begins | new_key, dtype=np.int64)
        return GroupRows(slot[order], np.cumsum(begins) - 1, alive[order], ties, columns)


@dataclass(frozen=True)
class Changes:
    """Copies that enter (+1) or leave (-1) the result with their values, one array per call."""

    slot: Ints
    time: Ints
    sign: Ints
    values: list[pa.Array]


@dataclass(frozen=True)
class _Cells:
    """How many copies of each row are alive in each segment, ordered by segment and row."""

    row: Ints
    segment: Ints  # from 0 on
    step: Ints  # number of the segment in its group
    alive: Ints
    most: Ints  # by row: greatest number of copies
    segments: Ints  # by group


@dataclass(frozen=True)
class _Places:
    """Live copies, ordered by segment and place."""

    row: Ints
    first: Ints  # first place of the segment
    end: Ints  # place after the last of the segment
    new: Mask  # whether it is the first of its segment, or differs from the one before in a key


def changed_copies(node: Over, rows: GroupRows, slot: Ints, time: Ints, sign: Ints) -> Changes:
    """Returns what births and deaths (`sign` of the row `slot` at `time`) change."""
    by_slot = np.argsort(rows.slot)
    row_of = by_slot[np.searchsorted(rows.slot, slot, sorter=by_slot)]
    runs = group_runs(rows.group[row_of], time)
    cells = _cells(rows, runs, row_of, sign)
    cell = np.repeat(np.arange(len(cells.alive)), cells.alive)
    copy = expand(np.zeros(len(cells.alive), dtype=np.int64), cells.alive)
    row, step = cells.row[cell], cells.step[cell]
    places = _places(rows, row, cells.segment[cell])
    found = [_value(call, rows.columns, places) for call in node.calls]
    # Copies of a row are told apart by their number: the same number in the next segment is the same copy.
    identity = (np.cumsum(cells.most) - cells.most)[row] + copy
    order = np.argsort(identity * (int(cells.segments.max()) + 1) + step)
    identity, step, row = identity[order], step[order], row[order]
    codes = [code[order] for code, _ in found]
    stays = (identity[1:] == identity[:-1]) & (step[1:] == step[:-1] + 1)
    for code in codes:
        stays &= code[1:] == code[:-1]
    group = rows.group[row]
    enters = np.flatnonzero((step > 0) & ~np.append(False, stays)[: len(step)])
    leaves = np.flatnonzero((step < cells.segments[group] - 1) & ~np.append(stays, False)[: len(step)])
    which = np.concatenate([enters, leaves])
    signs = np.repeat(np.array([1, -1]), [len(enters), len(leaves)])
    first_run = np.flatnonzero(runs.first)
    when = runs.time[first_run[group[which]] + step[which] - (signs > 0)]
    values = [_shown(code[which], values) for code, (_, values) in zip(codes, found, strict=True)]
    return Changes(rows.slot[row[which]], when, signs, values)


def _cells(rows: GroupRows, runs: Runs, row_of: Ints, sign: Ints) -> _Cells:
    first_run = np.flatnonzero(runs.first)
    segments = np.diff(np.append(first_run, len(runs))) + 1
    height = np.bincount(rows.group)  # rows of each group
    size = height * segments
    start = np.cumsum(size) - size
    first_row = np.cumsum(height) - height
    # By row and segment: births and deaths where they are, then sums along the row.
    base = start[rows.group] + (np.arange(len(rows.group)) - first_row[rows.group]) * segments[rows.group]
    run_of = np.empty(len(row_of), dtype=np.int64)
    run_of[runs.order] = np.repeat(np.arange(len(runs)), np.diff(np.append(runs.begin, len(row_of))))
    change = np.zeros(int(size.sum()), dtype=np.int64)
    change[base] = rows.alive
    np.add.at(change, base[row_of] + 1 + run_of - first_run[rows.group[row_of]], sign)
    alive = np.cumsum(change)
    alive -= np.repeat(alive[base] - rows.alive, segments[rows.group])
    most = np.maximum.reduceat(alive, base)
    # The same by segment and row.
    group = np.repeat(np.arange(len(size)), size)
    step, row = np.divmod(np.arange(len(alive)) - start[group], height[group])
    segment = (np.cumsum(segments) - segments)[group] + step
    alive = alive[start[group] + row * segments[group] + step]
    return _Cells(first_row[group] + row, segment, step, alive, most, segments)


def _places(rows: GroupRows, row: Ints, segment: Ints) -> _Places:
    begins = changes(segment)
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, len(row)))
    first = np.repeat(starts, lengths)
    return _Places(row, first, first + np.repeat(lengths, lengths), begins | changes(rows.ties[row]))


def _value(call: OverCall, columns: pa.RecordBatch, places: _Places) -> tuple[Ints, pa.Array | None]:
    """Returns the value of a call at each place as an integer, and the values that the integers stand for; None: they
    are the values."""
    here = np.arange(len(places.row))
    if call.func is OverFunc.ROW_NUMBER:
        return here - places.first + 1, None
    if call.func is OverFunc.RANK:
        return np.maximum.accumulate(np.where(places.new, here, 0)) - places.first + 1, None
    if call.func is OverFunc.DENSE_RANK:
        blocks: Ints = np.cumsum(places.new, dtype=np.int64)
        return blocks - blocks[places.first] + 1, None
    assert call.arg is not None
    count = columns.num_rows
    looked_at = columns.column(call.arg)
    if call.default is not None:
        looked_at = pa.concat_arrays([looked_at, columns.column(call.default)])
    codes, values = ranked(looked_at)
    other = here + (call.distance if call.func is OverFunc.LEAD else -call.distance)
    there = (other >= places.first) & (other < places.end)
    instead = codes[count:][places.row] if call.default is not None else -1
    return np.where(there, codes[places.row[np.where(there, other, 0)]], instead), values


def _shown(codes: Ints, values: pa.Array | None) -> pa.Array:
    if values is None:
        return pa.array(codes)
    if not len(values):
        return pa.nulls(len(codes), type=values.type)
    return values.take(pa.array(np.maximum(codes, 0), mask=codes < 0))
