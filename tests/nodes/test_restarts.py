"""When a dead node is started again, in virtual time."""

from __future__ import annotations

from kigen.cli.nodes.restarts import LIVED_S, NEVER_WORKED, Restarts


def test_restarts_back_off_up_to_a_minute() -> None:
    restarts, waits = Restarts(), []
    for n in range(9):
        restarts.works("a", 10.0 * n)
        waits.append(restarts.died("a", 10.0 * n + 5))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_node_that_lived_for_a_while_begins_again_with_a_second() -> None:
    restarts = Restarts()
    restarts.works("a", 0)
    assert [restarts.died("a", 1), restarts.died("a", 2)] == [1, 2]
    restarts.works("a", 3)
    restarts.works("a", 3 + LIVED_S - 1)
    assert restarts.died("a", 3 + LIVED_S) == 1


def test_starts_that_never_worked_are_counted_and_no_others() -> None:
    restarts = Restarts()
    for n in range(20):  # more deaths than the limit, each after work
        restarts.works("a", n)
        assert restarts.died("a", n) is not None
    waits = [restarts.died("a", 100) for _ in range(NEVER_WORKED)]
    assert [wait is None for wait in waits] == [False] * (NEVER_WORKED - 1) + [True]


def test_nodes_are_counted_apart() -> None:
    restarts = Restarts()
    for _ in range(NEVER_WORKED - 1):
        restarts.died("a", 0)
    assert restarts.died("b", 0) == 1
