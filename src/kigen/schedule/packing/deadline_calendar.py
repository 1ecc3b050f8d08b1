"""Deadline calendar: how many tuples of each task fall due in each slot of time, as one matrix (slots x tasks).

Rows in order are the tuples of all tasks in order of their key (deadline, or arrival); a column in order is a task's
queue. So questions about everything that waits are a few vector operations: work by deadline is `matrix @ costs`, "what
fits" is a cumulative sum. Keys are kept to within one slot. What lies more than `rows` slots before the newest is
merged into the first row: counts are never lost, order within a task neither. Cost: O(1) an arrival; O(rows x tasks)
numbers touched a question, in compiled loops.
"""

from __future__ import annotations

import numpy as np

from kigen.schedule.policy_interface import Floats, Grant, Ints


class DeadlineCalendar:
    def __init__(self, tasks: int, grain_us: float, rows: int) -> None:
        self.grain_us, self._rows = grain_us, rows
        self._matrix = np.zeros((2 * rows, tasks))
        self._base: int | None = None  # the slot of row 0
        self._low, self._high = 0, 0  # rows outside low..high-1 are empty
        self.pending = np.zeros(tasks)

    def file(self, task: int, count: int, key_us: float) -> None:
        row = self._row(int(key_us // self.grain_us))
        self._matrix[row, task] += count
        self.pending[task] += count

    def file_many(self, tasks: Ints, counts: Ints, keys_us: Floats) -> None:
        if not len(tasks):
            return
        slots = (keys_us // self.grain_us).astype(np.int64)
        self._row(int(slots.max()))
        self._row(int(slots.min()))
        assert self._base is not None
        np.add.at(self._matrix, (np.maximum(slots - self._base, 0), tasks), counts)
        np.add.at(self.pending, tasks, counts)

    def _row(self, slot: int) -> int:
        if self._base is None or self._low == self._high:
            # Nothing waits: begin anew around this slot, with room for tasks whose deadlines are shorter.
            self._base, self._low, self._high = slot - self._rows // 2, self._rows // 2, self._rows // 2
        row = slot - self._base
        if row >= len(self._matrix):
            row = self._make_room(row)
        row = max(row, 0)
        self._low, self._high = min(self._low, row), max(self._high, row + 1)
        return row

    def _make_room(self, row: int) -> int:
        """Move the last `rows` rows before `row` to the front; older ones become one."""
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
        """Rows that may hold something, oldest first. Changing it changes the calendar; use `take_*` to keep `pending`
        right."""
        low, high, matrix = self._low, self._high, self._matrix
        while low < high and not matrix[low].any():
            low += 1
        self._low = low
        if low == high:
            self._low = self._high = 0
        return self._matrix[self._low : self._high]

    def keys_us(self) -> Floats:
        """Where each row of `view` begins."""
        assert self._base is not None
        return np.asarray((self._base + np.arange(self._low, self._high)) * self.grain_us, np.float64)

    def take_rows(self, rows: int, columns: Floats | None = None) -> Floats:
        """Empty the oldest `rows` rows, of the tasks where `columns` is 1, or of all; gives how many tuples of each
        task that was."""
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
        """The oldest `count` tuples of one task."""
        column = self._matrix[self._low : self._high, task]
        sums = np.cumsum(column)
        before = sums - column
        np.subtract(column, np.clip(count - before, 0.0, column), out=column)
        self.pending[task] -= count

    def take_tasks(self, tasks: Ints) -> None:
        """All that waits of these tasks."""
        kept = np.ones(len(self.pending))
        kept[tasks] = 0.0
        self._matrix[self._low : self._high] *= kept
        self.pending[tasks] = 0.0

    def take_all(self) -> Floats:
        taken = self.pending.copy()
        self._matrix[self._low : self._high] = 0
        self.pending[:] = 0
        self._low = self._high = 0
        return taken


def work_by_row(rows: Floats, tuple_us: Floats) -> Floats:
    """Time that each row asks for. Not `@`: BLAS would wake threads for it, which costs more than it saves when the
    machine is busy."""
    return np.asarray(np.einsum("ij,j->i", rows, tuple_us))


def grants(counts: Floats) -> list[Grant]:
    """Counts by task as a decision lists them."""
    tasks = np.flatnonzero(counts > 0)
    return list(zip(tasks.tolist(), counts[tasks].astype(np.int64).tolist(), strict=True))
