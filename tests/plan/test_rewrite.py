"""Tests each rewrite rule: what it changes, and where it must not. test_meaning and the random apps check the
meaning."""

from __future__ import annotations

import pytest
from trees import STREAMS, lines, plan, tree

from kigen.plan import bind
from kigen.plan.logical import Join

PUSHED = {
    "through a projection, its expressions put in place": (
        "SELECT n FROM (SELECT x + 1 AS n FROM a [ROWS 5]) WHERE n > 3",
        """
        project x + 1 as n
          filter (x + 1) > 3
            a rows 5
        """,
    ),
    "not if it then might raise": (
        "SELECT n FROM (SELECT CAST(s AS BIGINT) AS n FROM a [ROWS 5]) WHERE n > 3",
        """
        filter n > 3
          project CAST(s AS BIGINT) as n
            a rows 5
        """,
    ),
    "through the keys of an aggregate": (
        "SELECT * FROM (SELECT x, COUNT(*) AS n FROM a [ROWS 5] GROUP BY x) WHERE x = 3 AND n > 1",
        """
        project x, count(*) as n
          filter n > 1
            aggregate count(*) by x
              filter x = 3
                a rows 5
        """,
    ),
    "not into a global aggregate: its one row is there without any": (
        "SELECT * FROM (SELECT COUNT(*) AS n FROM a [ROWS 5]) WHERE 1 = 2",
        """
        project count(*) as n
          filter 1 = 2
            aggregate count(*)
              a rows 5
        """,
    ),
    "HAVING over keys": (
        "SELECT x, COUNT(*) AS n FROM a [ROWS 5] GROUP BY x HAVING x > 2 AND COUNT(*) > 1",
        """
        project x, count(*) as n
          filter COUNT(*) > 1
            aggregate count(*) by x
              filter x > 2
                a rows 5
        """,
    ),
    "through DISTINCT": (
        "SELECT * FROM (SELECT DISTINCT x, s FROM a [ROWS 5]) WHERE x > 2",
        """
        distinct
          project x, s
            filter x > 2
              a rows 5
        """,
    ),
    "into both sides of EXCEPT": (
        "SELECT * FROM (SELECT x FROM a [ROWS 5] EXCEPT ALL SELECT y FROM b [ROWS 5]) WHERE x > 2",
        """
        except all
          project x
            filter x > 2
              a rows 5
          project y
            filter y > 2
              b rows 5
        """,
    ),
    "into every input of UNION ALL": (
        "SELECT * FROM (SELECT x FROM a [ROWS 5] UNION ALL SELECT y FROM b [ROWS 5] UNION ALL SELECT x FROM c [ROWS "
        "5]) WHERE x > 2",
        """
        union all
          project x
            filter x > 2
              a rows 5
          project y
            filter y > 2
              b rows 5
          project x
            filter x > 2
              c rows 5
        """,
    ),
    "into a side of a join, and through its key into the other": (
        "SELECT * FROM (SELECT a.x, p, q FROM a [ROWS 5], b [ROWS 5] WHERE a.x = b.y) WHERE x > 2 AND q > 1",
        """
        project x, p, q
          join on x = y
            filter x > 2
              a rows 5
            filter y > 2 AND q > 1
              b rows 5
        """,
    ),
    "not through a key of DOUBLE: 0.0 equals -0.0": (
        "SELECT * FROM (SELECT a.p, y FROM a [ROWS 5], b [ROWS 5] WHERE a.p = b.q) WHERE CAST(p AS STRING) = '0.0'",
        """
        project p, y
          join on p = q
            filter cast ( p as string ) = '0.0'
              a rows 5
            b rows 5
        """,
    ),
    "not below a window": (
        "SELECT x FROM q0 [ROWS 3] WHERE x > 2",
        """
        project x
          filter x > 2
            istream rows 3
              istream
                project x, t
                  a rows 5
        """,
    ),
    "not what might raise": (
        "SELECT * FROM (SELECT DISTINCT x, s FROM a [ROWS 5]) WHERE CAST(s AS BIGINT) > 2",
        """
        filter CAST(s AS BIGINT) > 2
          distinct
            project x, s
              a rows 5
        """,
    ),
    "conditions that cannot raise first, the others in the order written": (
        "SELECT x FROM a [ROWS 5] WHERE 10 // x > 1 AND CAST(s AS BIGINT) > 2 AND x <> 0 AND s LIKE '1%'",
        """
        project x
          filter CAST(s AS BIGINT) > 2
            filter 10 // x > 1
              filter x <> 0 AND s LIKE '1%'
                a rows 5
        """,
    ),
    "a filter that cannot be cut stays whole": (
        "SELECT x FROM a [ROWS 5] WHERE x <> 0 OR 10 // x > 1 AND s LIKE '1%'",
        """
        project x
          filter x <> 0 OR 10 // x > 1 AND s LIKE '1%'
            a rows 5
        """,
    ),
    "text in odd quotes stays": (
        "SELECT * FROM (SELECT DISTINCT x, s FROM a [ROWS 5]) WHERE s = e'c1\\n'",
        """
        filter s = e'c1\\n'
          distinct
            project x, s
              a rows 5
        """,
    ),
}


@pytest.mark.parametrize("name", PUSHED)
def test_filters(name: str) -> None:
    body, expected = PUSHED[name]
    assert tree(plan("ISTREAM(SELECT x, t FROM a [ROWS 5])", body)) == lines(expected)


GROUPS = "SELECT x, COUNT(*) AS n FROM a [ROWS 5] GROUP BY x"


def test_a_sub_plan_that_others_read_is_not_entered() -> None:
    alone = plan(f"SELECT * FROM ({GROUPS}) WHERE x = 3")
    assert tree(alone)[2] == "    filter x = 3"
    shared = plan(GROUPS, "SELECT * FROM q0 WHERE x = 3")
    assert tree(shared)[0] == "filter x = 3"


def test_queries_that_filter_alike_still_share() -> None:
    body = f"SELECT * FROM ({GROUPS}) WHERE x = 3"
    app = bind(f"{STREAMS} CREATE QUERY p AS {body}; CREATE QUERY q AS SELECT n AS m FROM ({body});")
    assert app.queries[0].root.child in set(app.queries[1].root.walk())  # type: ignore[attr-defined]


def test_a_firm_deadline_shares_nothing_so_its_plan_is_entered() -> None:
    app = bind(
        f"{STREAMS} CREATE QUERY p AS {GROUPS}; CREATE QUERY q DEADLINE 1 SECOND FIRM AS SELECT * FROM ({GROUPS}) "
        "WHERE x = 3;"
    )
    assert tree(app.queries[1].root)[2] == "    filter x = 3"


def test_names_stay_what_the_query_calls_them() -> None:
    text = "SELECT DISTINCT n AS {0} FROM (SELECT x + 1 AS n FROM a [ROWS 5]) WHERE n > 3"
    app = bind(f"{STREAMS} CREATE QUERY p AS {text.format('one')}; CREATE QUERY q AS {text.format('two')};")
    assert [[c.name for c in q.schema] for q in app.queries] == [["one"], ["two"]]


# --- conditions above a join -----------------------------------------------------------------------------------------

INSIDE = "SELECT a.x, p, s, b.y, q, r FROM a [ROWS 5], b [ROWS 5]"
TAKEN = {
    "an equality becomes a key": (
        f"SELECT * FROM ({INSIDE}) WHERE x = y",
        """
        project x, p, s, y, q, r
          join on x = y
            a rows 5
            b rows 5
        """,
    ),
    "of expressions and of two types": (
        f"SELECT * FROM ({INSIDE}) WHERE x % 7 = q",
        """
        project x, p, s, y, q, r
          project x, p, s, t, y, q, r, u
            join on x % 7 = q
              project x, p, s, t, x % 7
                a rows 5
              b rows 5
        """,
    ),
    "an inequality becomes a comparison": (
        f"SELECT * FROM ({INSIDE}) WHERE x < y",
        """
        project x, p, s, y, q, r
          join by x < y where x < y
            a rows 5
            b rows 5
        """,
    ),
    "what might raise stays": (
        f"SELECT * FROM ({INSIDE}) WHERE CAST(s AS BIGINT) = y",
        """
        filter CAST(s AS BIGINT) = y
          project x, p, s, y, q, r
            cross join
              a rows 5
              b rows 5
        """,
    ),
    "what is no comparison stays a condition": (
        f"SELECT * FROM ({INSIDE}) WHERE s = r AND (s < r OR x > y)",
        """
        project x, p, s, y, q, r
          join on s = r where s < r or x > y
            a rows 5
            b rows 5
        """,
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_conditions_above_a_join(name: str) -> None:
    body, expected = TAKEN[name]
    assert tree(plan(body)) == lines(expected)


def test_a_join_that_others_read_keeps_its_conditions() -> None:
    root = plan(INSIDE, "SELECT * FROM q0 WHERE x = y")
    (join,) = [node for node in root.walk() if isinstance(node, Join)]
    assert join.left_keys == ()
