"""Tests joins as the binder builds them: keys, guards, comparisons, and the order of several inputs."""

from __future__ import annotations

import pytest
from trees import lines, plan, tree

from kigen.plan.binder.from_clause.join_order import Link, join_order
from kigen.plan.logical import Comparison, Join
from kigen.plan.types import Type


def joins(body: str) -> list[Join]:
    return [node for node in plan(body).walk() if isinstance(node, Join)]


# --- keys and guards -------------------------------------------------------------------------------------------------

PLACED = {
    "a key that is an expression is computed once, below": (
        "SELECT a.x FROM a [NOW], b [ROWS 5] WHERE a.x % 10 = b.y",
        """
        project x
          join on a.x % 10 = y
            project x, p, s, t, a.x % 10
              a now
            b rows 5
        """,
    ),
    "a key that might raise sees the rows that its input's conditions leave, wherever they are written": (
        "SELECT a.x FROM a [NOW], b [ROWS 5] WHERE CAST(a.s AS BIGINT) = b.y AND a.s LIKE '1%' AND CAST(a.s AS "
        "DOUBLE) > 5",
        """
        project x
          join on CAST(a.s AS BIGINT) = y
            project x, p, s, t, CAST(a.s AS BIGINT)
              filter CAST(a.s AS DOUBLE) > 5
                filter a.s LIKE '1%'
                  a now
            b rows 5
        """,
    ),
    "a condition that might raise waits for a condition of both inputs that may be its guard": (
        "SELECT a.x FROM a [NOW], b [ROWS 5] WHERE a.x = b.y AND a.p < b.q AND CAST(a.s AS BIGINT) > 3",
        """
        project x
          filter CAST(a.s AS BIGINT) > 3
            join on x = y by p < q where a.p < b.q
              a now
              b rows 5
        """,
    ),
    "but not for one of other inputs": (
        "SELECT a.x FROM a [NOW], b [ROWS 5], c [ROWS 5] WHERE a.x = b.y AND b.y = c.x AND b.q < c.n AND CAST(a.s AS "
        "BIGINT) > 3",
        """
        project x
          join on y = x by q < n where b.q < c.n
            join on x = y
              filter CAST(a.s AS BIGINT) > 3
                a now
              b rows 5
            project x, y, n, n::DOUBLE as n
              c rows 5
        """,
    ),
    "of both inputs, and might raise: last": (
        "SELECT a.x FROM a [NOW], b [ROWS 5] WHERE a.x // b.y > 3 AND b.y <> 0 AND a.s = b.r",
        """
        project x
          filter a.x // b.y > 3
            join on s = r
              a now
              filter b.y <> 0
                b rows 5
        """,
    ),
    "a constant goes below, and so does what a key makes known of the other side": (
        "SELECT a.x FROM a [NOW], b [ROWS 5] WHERE a.x = b.y AND a.x = 5 AND 1 < 2",
        """
        project x
          join on x = y
            filter a.x = 5 AND 1 < 2
              a now
            filter y = 5
              b rows 5
        """,
    ),
    "a DOUBLE tells nothing of the other side: 0.0 equals -0.0": (
        "SELECT a.x FROM a [NOW], b [ROWS 5] WHERE a.p = b.q AND a.p = 5",
        """
        project x
          join on p = q
            filter a.p = 5
              a now
            b rows 5
        """,
    ),
    "an equality of a type that no column can have is no key": (
        "SELECT a.x FROM a [NOW], b [ROWS 5] WHERE a.t - a.t = b.u - b.u",
        """
        project x
          cross join where a.t - a.t = b.u - b.u
            a now
            b rows 5
        """,
    ),
}


@pytest.mark.parametrize("name", PLACED)
def test_placed(name: str) -> None:
    body, expected = PLACED[name]
    assert tree(plan(body)) == lines(expected)


# --- comparisons -----------------------------------------------------------------------------------------------------

COMPARED = {
    "a.x < b.y": [(0, "<", 0)],
    "b.y < a.x": [(0, ">", 0)],
    "b.u BETWEEN a.t AND a.t + INTERVAL 5 SECOND": [(3, "<=", 3), (4, ">=", 3)],
    "a.x = b.y AND a.t >= b.u": [(3, ">=", 3)],
    "a.x <= b.q": [(4, "<=", 1)],  # as DOUBLE
    "a.x * 1.5 < b.y": [(4, "<=", 4)],  # DuckDB compares decimals; as doubles, equal ones may differ
    "a.x + 1 > b.y - 1 AND a.p < b.q": [(4, ">", 4), (1, "<", 1)],
    "a.s < b.r": [],
    "a.x <> b.y": [],
    "NOT a.x < b.y": [],
    "a.x < b.y OR a.p < b.q": [],
    "a.x - b.y < 5": [],
    "a.x // b.y < a.x": [],
    "10 // a.x < b.y": [],  # might raise: tested above
}


@pytest.mark.parametrize("condition", COMPARED)
def test_comparisons(condition: str) -> None:
    (join,) = joins(f"SELECT a.x FROM a [ROWS 5] JOIN b [ROWS 5] ON {condition}")
    assert join.comparisons == tuple(Comparison(*each) for each in COMPARED[condition])
    for each in join.comparisons:
        kinds = {join.left.schema[each.left].type, join.right.schema[each.right].type}
        assert len(kinds) == 1
        assert kinds <= {Type.BIGINT, Type.DOUBLE, Type.TIMESTAMP}
    if join.comparisons:
        assert join.residual is not None


# --- the order of inputs ---------------------------------------------------------------------------------------------


def links(pairs: set[tuple[int, int]]) -> object:
    both = pairs | {(b, a) for a, b in pairs}
    return lambda joined, k: Link.EQUAL if any((j, k) in both for j in joined) else Link.CROSS


ORDERS = [
    ([10.0, 10.0], set(), [0, 1]),
    ([10.0, 10.0, 10.0], {(0, 2), (2, 1)}, [0, 2, 1]),  # as written, 0 and 1 have no key
    ([10.0, 10.0, 10.0], {(1, 2)}, [1, 2, 0]),  # the unavoidable cross product comes last
    ([10.0, 10.0, 10.0], {(0, 1), (1, 2)}, [0, 1, 2]),  # no order is better: as written
    ([1000.0, 1000.0, 1.0], {(0, 1), (1, 2)}, [1, 2, 0]),  # the small one first
    ([10.0, 10.0, 7.0], {(0, 1), (0, 2)}, [0, 1, 2]),  # not clearly smaller
    ([10.0, 10.0, 10.0, 10.0], {(1, 2), (3, 0), (2, 3)}, [0, 3, 2, 1]),
]


@pytest.mark.parametrize(("sizes", "pairs", "expected"), ORDERS)
def test_order(sizes: list[float], pairs: set[tuple[int, int]], expected: list[int]) -> None:
    assert join_order(sizes, links(pairs)) == expected  # type: ignore[arg-type]


def test_no_cross_product_where_another_order_avoids_it() -> None:
    for body in (
        "SELECT * FROM b [ROWS 5], a [ROWS 5], c [ROWS 5] WHERE a.x = c.x AND c.y = b.y",
        "SELECT * FROM a [ROWS 5], b [ROWS 5], c [ROWS 5], a [NOW] z WHERE z.x = b.y AND c.n = z.x AND a.x = c.y",
    ):
        assert all(join.left_keys for join in joins(body))
    names = [
        c.name for c in plan("SELECT * FROM b [ROWS 5], a [ROWS 5], c [ROWS 5] WHERE a.x = c.x AND c.y = b.y").schema
    ]
    assert names == ["y", "q", "r", "u", "x", "p", "s", "t", "x_1", "y_1", "n"]


def test_an_equality_of_three_inputs_is_a_key_or_a_condition() -> None:
    (first, second) = joins("SELECT * FROM a [ROWS 5], b [ROWS 5], c [ROWS 5] WHERE a.x + b.y = c.n AND a.x = b.y")
    assert (len(first.left_keys), len(second.left_keys)) == (1, 1)
    (first, second) = joins("SELECT * FROM a [ROWS 5], b [ROWS 5], c [ROWS 5] WHERE a.x + b.y = c.n AND a.x = c.x")
    assert (len(first.left_keys), len(second.left_keys)) == (1, 0)
    assert second.residual is not None
