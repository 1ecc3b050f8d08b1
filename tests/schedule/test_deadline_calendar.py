"""Compares the calendar with lists of tuples."""

from __future__ import annotations

import random

import numpy as np

from kigen.schedule.packing.deadline_calendar import DeadlineCalendar, grants


def test_holds_what_was_filed_whatever_the_order_and_the_gaps() -> None:
    rng = random.Random(3)
    for _ in range(30):
        calendar, waiting = DeadlineCalendar(3, 10.0, 16), [0, 0, 0]
        now = 0.0
        for _ in range(200):
            now += rng.choice((0.0, 1.0, 30.0, 500.0))
            task, count = rng.randrange(3), rng.randrange(1, 9)
            calendar.file(task, count, now + rng.choice((0.0, 50.0, 100.0)))
            waiting[task] += count
            if rng.random() < 0.3:
                taken = calendar.take_rows(min(2, len(calendar.view())))
                waiting = [w - int(t) for w, t in zip(waiting, taken, strict=True)]
            assert calendar.pending.tolist() == waiting
            assert calendar.view().sum(axis=0).tolist() == waiting


def test_rows_are_in_the_order_of_keys() -> None:
    calendar = DeadlineCalendar(2, 10.0, 64)
    for task, key in ((0, 95.0), (1, 20.0), (0, 40.0)):
        calendar.file(task, 1, key)
    view, keys = calendar.view(), calendar.keys_us()
    found = [(float(keys[r]), int(np.flatnonzero(view[r])[0])) for r in range(len(view)) if view[r].any()]
    assert found == [(20.0, 1), (40.0, 0), (90.0, 0)]


def test_taking_the_oldest_of_one_task_leaves_the_others() -> None:
    calendar = DeadlineCalendar(2, 10.0, 64)
    calendar.file_many(np.array([0, 0, 1]), np.array([3, 5, 2]), np.array([10.0, 50.0, 30.0]))
    calendar.take_oldest(0, 4.0)
    assert calendar.pending.tolist() == [4.0, 2.0]
    assert calendar.view()[:, 0].sum() == 4
    assert calendar.take_rows(1).tolist() == [0.0, 2.0], "the first row is now that of the other task"


def test_grants_list_what_is_there() -> None:
    assert grants(np.array([0.0, 3.0, 0.0, 1.0])) == [(1, 3), (3, 1)]
