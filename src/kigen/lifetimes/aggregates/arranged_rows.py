"""Keeps the live tuples of groups so that single ones can be looked up, and the best one of each group is known.

A tuple has a small number while it lives; numbers are used again. Its columns lie in parts, each less than half as long
as the one before, and its births and groups in arrays by number. A tournament for each order that an aggregate asks for
stands over all of them (kigen.lifetimes.sweeps.tournament). Cost: O(log rows) per tuple that comes or goes, in vector
passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.blocks import Ints, Mask, concat_columns, empty_columns, no_ints, take_columns
from kigen.lifetimes.chunks import MOST_TEXT
from kigen.lifetimes.keys.column_parts import take_rows
from kigen.lifetimes.keys.slot_arrays import grown
from kigen.lifetimes.sweeps.leaves import NONE, Leaves
from kigen.lifetimes.sweeps.row_order import coarse_key, is_exact, row_ranks
from kigen.lifetimes.sweeps.tournament import Tournament
from kigen.plan.logical import BIRTH, Agg, AggFunc, SortKey
from kigen.plan.types import Schema

EXTREMES = (AggFunc.MIN, AggFunc.MAX)
CHOICES = (AggFunc.ARG_MIN, AggFunc.ARG_MAX, AggFunc.FIRST, AggFunc.LAST)
CHOSEN = (*EXTREMES, *CHOICES)  # aggregates whose value is that of one tuple
_SLACK = 4096


@dataclass(frozen=True)
class Contest:
    """An order in which the first (or last) tuple is wanted, of those that have values in the columns `valid` and
    satisfy `condition`. Columns are those of the aggregate's child."""

    order: tuple[SortKey, ...]
    least: bool
    valid: tuple[int, ...]
    condition: int | None

    @staticmethod
    def of(agg: Agg) -> Contest:
        assert agg.arg is not None
        if agg.func in EXTREMES:
            return Contest((SortKey(agg.arg),), agg.func is AggFunc.MIN, (agg.arg,), None)
        valid = (agg.arg, agg.order[0].column) if agg.func in (AggFunc.ARG_MIN, AggFunc.ARG_MAX) else ()
        return Contest(agg.order, agg.func is not AggFunc.LAST, valid, agg.condition)


class ArrangedRows:
    """Live tuples by number. `kept` are the child columns that they have."""

    def __init__(self, schema: Schema, kept: list[int], contests: Iterable[Contest]) -> None:
        self._schema, self._kept = schema, kept
        self._leaves = Leaves()
        self._contests = {contest: Tournament(self._leaves, self._ranks_of(contest)) for contest in contests}
        self._may_win: dict[Contest, Mask] = {
            contest: np.zeros(0, dtype=np.bool_)
            for contest in self._contests
            if contest.valid or contest.condition is not None
        }
        self._parts: list[pa.RecordBatch] = []
        self._rows = 0  # in all parts
        self._row: Ints = no_ints()  # row in the parts, by number
        self._there: Mask = np.zeros(0, dtype=np.bool_)  # whether the tuple with the number lives
        self._free: Ints = no_ints()
        self._count = 0
        self.birth: Ints = no_ints()  # by number
        self.group: Ints = no_ints()  # by number

    def __len__(self) -> int:
        return self._count

    def lives(self, numbers: Ints) -> Mask:
        return self._there[numbers]

    # --- tuples ---------------------------------------------------------------------------------------------------

    def add(self, columns: pa.RecordBatch, group: Ints, birth: Ints) -> Ints:
        """Returns numbers for new tuples. They take no part before `enter`."""
        count = len(group)
        if not count:
            return no_ints()
        self._reserve(count)
        numbers, self._free = self._free[len(self._free) - count :], self._free[: len(self._free) - count]
        self._there[numbers] = True
        self.birth[numbers], self.group[numbers] = birth, group
        self._row[numbers] = np.arange(self._rows, self._rows + count)
        self._rows += count
        self._count += count
        self._append(columns)
        for contest, tournament in self._contests.items():
            tournament.key[numbers] = self._keys(contest, columns, birth)
            if contest in self._may_win:
                self._may_win[contest][numbers] = self._part_of(contest, columns)
        return numbers

    def enter(self, numbers: Ints, groups: int) -> None:
        """Lets tuples take part. Groups are below `groups`."""
        if not len(numbers):
            return
        changed, group, cleared = self._leaves.add(numbers, self.group[numbers], len(self._row), groups)
        spots = self._leaves.spots(changed, group)
        for contest, tournament in self._contests.items():
            tournament.add(spots, cleared, self._may_win.get(contest))

    def leave(self, numbers: Ints) -> None:
        """Takes tuples that died out of the contests, if they took part. Their columns stay until `forget`."""
        self._there[numbers] = False
        numbers = numbers[self._leaves.has(numbers)]
        if not len(numbers):
            return
        group = self.group[numbers]
        spots = self._leaves.spots(numbers, group)
        for tournament in self._contests.values():
            tournament.remove(spots)
        self._leaves.remove(numbers, group)

    def forget(self, numbers: Ints) -> None:
        """Frees the numbers of tuples that died."""
        self._free = np.concatenate([self._free, numbers])
        self._count -= len(numbers)
        if self._rows > 2 * self._count + _SLACK:
            self._compact()

    def best(self, group: Ints) -> Ints:
        """Returns the tuples of these groups that are the best in some contest, each once."""
        found = [tournament.best(group) for tournament in self._contests.values()]
        rows: Ints = np.unique(np.concatenate(found)) if found else no_ints()
        there: Ints = rows[rows != NONE]
        return there

    # --- columns --------------------------------------------------------------------------------------------------

    def columns_of(self, numbers: Ints) -> pa.RecordBatch:
        if not len(numbers) or not self._parts:
            return empty_columns(self._schema)
        return take_rows(self._parts, self._row[numbers])

    @property
    def row_bytes(self) -> float:
        return float(sum(part.nbytes for part in self._parts)) / max(self._rows, 1)

    def _append(self, columns: pa.RecordBatch) -> None:
        merged, rows, size = [columns], columns.num_rows, columns.nbytes
        while self._parts and self._parts[-1].num_rows <= 2 * rows and size + self._parts[-1].nbytes <= MOST_TEXT:
            merged.insert(0, self._parts.pop())
            rows, size = rows + merged[0].num_rows, size + merged[0].nbytes
        self._parts.append(concat_columns(merged))

    def _compact(self) -> None:
        """Drops the columns of forgotten tuples."""
        live = np.flatnonzero(self._there)
        live = live[np.argsort(self._row[live])]
        row = self._row[live]
        ends = np.cumsum([part.num_rows for part in self._parts])
        bounds = np.searchsorted(row, ends)
        parts, begin, first = self._parts, 0, 0
        self._parts = []
        for part, stop, end in zip(parts, bounds.tolist(), ends.tolist(), strict=True):
            if stop > begin:
                self._parts.append(take_columns(part, row[begin:stop] - first))
            begin, first = stop, end
        self._row[live] = np.arange(len(live))
        self._rows = len(live)

    def _reserve(self, count: int) -> None:
        """Makes sure that `count` numbers are free."""
        old = len(self._row)
        if len(self._free) >= count:
            return
        capacity = max(2 * old, 1 << (old + count).bit_length())
        self._row, self.birth, self.group = (grown(a, capacity) for a in (self._row, self.birth, self.group))
        self._there = _grown_mask(self._there, capacity)
        self._may_win = {contest: _grown_mask(mask, capacity) for contest, mask in self._may_win.items()}
        for tournament in self._contests.values():
            tournament.key = grown(tournament.key, capacity)
        self._free = np.concatenate([np.arange(capacity - 1, old - 1, -1), self._free])

    # --- orders ---------------------------------------------------------------------------------------------------

    def _column(self, columns: pa.RecordBatch, number: int) -> pa.Array:
        return columns.column(self._kept.index(number))

    def _keys(self, contest: Contest, columns: pa.RecordBatch, birth: Ints) -> Ints:
        key = contest.order[0]
        if key.column == BIRTH:
            values = ~birth if key.descending else birth
        else:
            values = coarse_key(self._column(columns, key.column), key)
        return values if contest.least else ~values

    def _part_of(self, contest: Contest, columns: pa.RecordBatch) -> Mask:
        out = np.ones(columns.num_rows, dtype=np.bool_)
        if contest.condition is not None:
            chosen = pc.fill_null(self._column(columns, contest.condition), False)
            out &= np.asarray(chosen.to_numpy(zero_copy_only=False), dtype=np.bool_)
        for number in contest.valid:
            column = self._column(columns, number)
            if column.null_count:
                out &= np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)
        return out

    def _ranks_of(self, contest: Contest) -> Callable[[Ints], Ints] | None:
        """Returns how to order tuples whose keys are equal; None if the keys say all."""
        (first, *others) = contest.order
        if not others and first.column != BIRTH and is_exact(self._schema[self._kept.index(first.column)].type.arrow):
            return None

        def ranks(numbers: Ints) -> Ints:
            columns = self.columns_of(numbers)
            arrays = dict(zip(self._kept, columns.columns, strict=True))
            by_number = [arrays.get(number, pa.nulls(0)) for number in range(max(self._kept) + 1)]
            found = row_ranks(by_number, contest.order, self.birth[numbers])
            return found if contest.least else ~found

        return ranks


def _grown_mask(mask: Mask, capacity: int) -> Mask:
    return np.concatenate([mask, np.zeros(capacity - len(mask), dtype=np.bool_)])
