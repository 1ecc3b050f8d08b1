"""Deadline calendar: how many tuples of each task fall due in each slot of time, as one matrix (slots x tasks).

Rows in order are the tuples of all tasks in the order of their key (deadline or arrival); a column in order is a task's
queue. So questions about everything that waits take a few vector operations: work by deadline is `matrix @ costs`,
"what fits" is a cumulative sum. Keys are exact to one slot. Keys more than `rows` slots before the newest are merged
into the first row: no count is lost, and the order within a task is kept. Cost: O(1) per arrival; O(rows x tasks)
numbers touched per question, in compiled loops.
"""

from __future__ import annotations

import numpy as np

from kigen.schedule.policy_interface import Floats, Grant, Ints


class DeadlineCalendar:
    """Calendar of all tasks."""

    def __init__(self, tasks: int, grain_us: float, rows: int) -> None:
        self.grain_us, self._rows = grain_us, rows
        self._matrix = np.zeros((2 * rows, tasks))
        self._base: int | None = None  # the slot of row 0
        self._low, self._high = 0, 0  # rows outside low..high-1 are empty
        self.pending = np.zeros(tasks)

    def file(self, task: int, count: int, key_us: float) -> None:
        """Adds tuples of one task."""
        row = self._row(int(key_us // self.grain_us))
        self._matrix[row, task] += count
        self.pending[task] += count

    def file_many(self, tasks: Ints, counts: Ints, keys_us: Floats) -> None:
        """Adds tuples of many tasks."""
        if not len(tasks):
            return
        slots = (keys_us // self.grain_us).astype(np.int64)
        self._row(int(slots.max()))
        self._row(int(slots.min()))
        assert self._base is not None
        np.add.at(self._matrix, (np.maximum(slots - self._base, 0), tasks), counts)
        np.add.at(self.pending, tasks, counts)

    def _row(self, slot: int) -> int:
        """Returns the row of a slot, and makes room for it if needed."""
        if self._base is None or self._low == self._high:
            # Nothing waits: restart around this slot, with room for tasks whose deadlines are shorter.
            self._base, self._low, self._high = slot - self._rows // 2, self._rows // 2, self._rows // 2
        row = slot - self._base
        if row >= len(self._matrix):
            row = self._make_room(row)
        row = max(row, 0)
        self._low, self._high = min(self._low, row), max(self._high, row + 1)
        return row

    def _make_room(self, row: int) -> int:
        """Moves the last `rows` rows before `row` to the front. Older rows are merged into one."""
        assert self._base is not None
        shift = row - self._rows + 1
        matrix, size = self._matrix, len(self._matrix)
        if shift < size:
            oldest = matrix[: shift + 1].sum(axis=0)
            matrix[: size - shift] = matrix[shift:].copy()
            matrix[size - shift :] = 0
        else:
            oldest = matrix.sum(axis=0)
            matrix[:] = 0
        matrix[0] = oldest
        self._base += shift
        self._low, self._high = max(0, self._low - shift), max(1, self._high - shift)
        return row - shift

    def view(self) -> Floats:
        """Returns the rows that may hold something, oldest first. Changes to it change the calendar; `take_*` keep
        `pending` right.
        """
        low, high, matrix = self._low, self._high, self._matrix
        while low < high and not matrix[low].any():
            low += 1
        self._low = low
        if low == high:
            self._low = self._high = 0
        return self._matrix[self._low : self._high]

    def keys_us(self) -> Floats:
        """Returns the first key of each row of `view`."""
        assert self._base is not None
        return np.asarray((self._base + np.arange(self._low, self._high)) * self.grain_us, np.float64)

    def take_rows(self, rows: int, columns: Floats | None = None) -> Floats:
        """Empties the oldest `rows` rows, of all tasks or of those where `columns` is 1. Returns the tuples per
        task.
        """
        part = self._matrix[self._low : self._low + rows]
        if columns is None:
            taken: Floats = part.sum(axis=0)
            part[:] = 0
        else:
            taken = part.sum(axis=0) * columns
            part *= 1 - columns
        self.pending -= taken
        return taken

    def take_oldest(self, task: int, count: float) -> None:
        """Removes the oldest `count` tuples of one task."""
        column = self._matrix[self._low : self._high, task]
        sums = np.cumsum(column)
        before = sums - column
        np.subtract(column, np.clip(count - before, 0.0, column), out=column)
        self.pending[task] -= count

    def take_tasks(self, tasks: Ints) -> None:
        """Removes everything that waits of these tasks."""
        kept = np.ones(len(self.pending))
        kept[tasks] = 0.0
        self._matrix[self._low : self._high] *= kept
        self.pending[tasks] = 0.0

    def take_all(self) -> Floats:
        """Removes everything. Returns the tuples per task."""
        taken = self.pending.copy()
        self._matrix[self._low : self._high] = 0
        self.pending[:] = 0
        self._low = self._high = 0
        return taken


def work_by_row(rows: Floats, tuple_us: Floats) -> Floats:
    """Returns the time that each row needs.

    Does not use `@`: BLAS would wake threads for it, which costs more than it saves on a busy machine.
    """
    return np.asarray(np.einsum("ij,j->i", rows, tuple_us))


def grants(counts: Floats) -> list[Grant]:
    """Returns counts per task in the form of a decision."""
    tasks = np.flatnonzero(counts > 0)
    return list(zip(tasks.tolist(), counts[tasks].astype(np.int64).tolist(), strict=True))
