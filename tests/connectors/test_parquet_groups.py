"""Tests row groups that are read ahead: the same tables in any order of requests, and errors at the group they belong
to."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from kigen.connectors.parquet.row_groups import Group, RowGroups

GROUPS: list[Group] = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]


def following(group: Group) -> Iterator[Group]:
    return iter(GROUPS[GROUPS.index(group) + 1 :])


def table_of(group: Group) -> pa.Table:
    return pa.table({"x": [f"{group[0]}{group[1]}"]})


def groups_of(seen: list[Group]) -> RowGroups:
    def decode(group: Group) -> pa.Table:
        seen.append(group)
        return table_of(group)

    return RowGroups(decode, following)


def settle(groups: RowGroups) -> None:
    thread = groups._thread
    if thread is not None:
        thread.join()


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_requests_gives_the_groups(seed: int) -> None:
    chance, groups = random.Random(seed), groups_of([])
    at = 0
    for _ in range(30):
        at = (at + chance.choice([0, 0, 1, 1, 2, 5])) % len(GROUPS)
        wanted = GROUPS[at : at + chance.randint(1, 3)]
        assert groups.get(wanted) == [table_of(group) for group in wanted]
        at += len(wanted) - 1
    settle(groups)


def test_requests_in_order_decode_each_group_once_and_ahead() -> None:
    seen: list[Group] = []
    groups = groups_of(seen)
    groups.get(GROUPS[:1])
    assert seen == GROUPS[:1], "a first request says nothing about the next"
    groups.get(GROUPS[1:2])
    settle(groups)
    assert seen == GROUPS[:3]
    groups.get(GROUPS[2:4])  # spans what was read ahead and what was not
    settle(groups)
    groups.get(GROUPS[4:])
    assert seen == GROUPS


def test_an_error_is_raised_where_the_group_is_asked_for() -> None:
    def decode(group: Group) -> pa.Table:
        if group == ("a", 2):
            raise OSError("torn")
        return table_of(group)

    groups = RowGroups(decode, following)
    groups.get(GROUPS[:1])
    groups.get(GROUPS[1:2])
    settle(groups)
    with pytest.raises(OSError, match="torn"):
        groups.get(GROUPS[2:3])


def test_no_thread_is_left_behind() -> None:
    groups = groups_of([])
    for i in range(len(GROUPS)):
        groups.get(GROUPS[i : i + 1])
    settle(groups)
    assert not [thread for thread in threading.enumerate() if thread.name == "read-ahead"]
