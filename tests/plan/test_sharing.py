"""Tests which joins become one, and which conditions are then inside it and above it."""

from __future__ import annotations

import pytest
from oracle.generate import generate_family
from oracle.render_cql import app_text

from kigen.plan import bind
from kigen.plan.logical import Filter, PlanNode, Project
from kigen.plan.shared_joins.share_nodes import JoinShare, SharedJoin, window_below
from kigen.plan.shared_joins.slices import join_slices
from kigen.plan.tasks import extract_tasks

STREAMS = """
CREATE STREAM a (k BIGINT, x DOUBLE, c STRING) FROM synthetic (rate = 1);
CREATE STREAM b (k BIGINT, y DOUBLE, d STRING) FROM synthetic (rate = 1);
"""
R1, R2, R3 = "[RANGE 1 SECOND]", "[RANGE 2 SECONDS]", "[RANGE 3 SECONDS]"


def roots(*bodies: str) -> list[PlanNode]:
    """Returns the plans that run, in the order of the queries."""
    app = bind(STREAMS + "".join(f"CREATE QUERY q{i} AS {body};" for i, body in enumerate(bodies)))
    planned = {q.name: q.root for task in extract_tasks(app) for q in task.queries}
    return [planned[q.name] for q in app.queries]


def joins_in(*plans: PlanNode) -> set[SharedJoin]:
    return {n for plan in plans for n in plan.walk() if isinstance(n, SharedJoin)}


def on(left: str, right: str, rest: str = "") -> str:
    return f"SELECT a.k, y FROM a {left} JOIN b {right} ON a.k = b.k {rest}"


SAME = {
    "other windows": [on(R1, R1), on(R2, R2)],
    "windows of both sides differ": [on(R1, R3), on(R2, R1)],
    "rows": [on("[ROWS 1]", "[ROWS 1]"), on("[ROWS 7]", "[ROWS 3]")],
    "NOW is a RANGE": [on("[NOW]", "[NOW]"), on(R2, R2)],
    "other columns, names and spelling": [on(R1, R1), f"SELECT * FROM a {R2} p, b {R2} AS q WHERE q.k = p.k"],
    "an aggregate": [on(R1, R1), f"SELECT d, AVG(x) FROM a {R2}, b {R2} WHERE a.k = b.k GROUP BY d"],
    "another filter of one stream": [on(R1, R1, "WHERE x > 1"), on(R2, R2, "WHERE d = 'c1'")],
    "a filter of one query only": [on(R1, R1), on(R1, R1, "WHERE x > 1")],
    "another condition on both": [on(R1, R1, "AND x < y"), on(R2, R2, "AND x > y")],
    "inside a larger query": [on(R1, R1), f"SELECT p.k FROM ({on(R2, R2)}) p, b [NOW] WHERE p.y = b.y"],
    "of three streams": [on(R1, R1), f"SELECT a.k FROM a {R2}, b {R2}, a [NOW] z WHERE a.k = b.k AND z.x = b.y"],
    "in one query": [f"{on(R1, R1)} UNION ALL {on(R2, R2)}"],
    "keys as DOUBLE": [f"SELECT a.k FROM a {w}, b {w} WHERE a.k = b.y AND c = '{w[7]}'" for w in (R1, R2)],
    "a key that is an expression": [f"SELECT a.k FROM a {w}, b {w} WHERE a.k + 1 = b.k" for w in (R1, R2)],
    "a key that is a remainder, and filters": [
        f"SELECT a.k FROM a {w}, b {w} WHERE a.k % 7 = b.k AND c = '{w[7]}'" for w in (R1, R2)
    ],
    "an inequality of an expression": [on(R1, R1, "AND a.x + 1 < b.y"), on(R2, R2)],
    "several inequalities of expressions": [
        on(R1, R1, "AND a.x + 1 < b.y * 2"),
        on(R2, R2, "AND a.x - 1 > b.y + 1 AND a.x < b.y"),
    ],
    "a condition that might raise": [on(R1, R1, "WHERE CAST(c AS BIGINT) > 1 AND c <> ''"), on(R2, R2)],
    "streams of queries": [f"SELECT s.k FROM a {w} JOIN (SELECT k, y FROM b {w}) s ON a.k = s.k" for w in (R1, R2)],
}

APART = {
    "another key": [on(R1, R1), f"SELECT a.k FROM a {R2}, b {R2} WHERE a.x = b.y"],
    "RANGE beside ROWS": [on(R1, R1), on("[ROWS 1]", "[ROWS 1]")],
    "mixed kinds": [on(R1, "[ROWS 1]"), on(R2, "[ROWS 2]")],
    "windows that slide": [on(R1, R1), on("[RANGE 2 SECONDS SLIDE 1 SECOND]", "[RANGE 2 SECONDS SLIDE 1 SECOND]")],
    "unbounded": [on(R1, R1), on("[UNBOUNDED]", "[UNBOUNDED]")],
    "no key": [f"SELECT a.k FROM a {w}, b {w} WHERE a.x < b.y" for w in (R1, R2)],
    "sides exchanged": [on(R1, R1), f"SELECT a.k FROM b {R2}, a {R2} WHERE a.k = b.k"],
    "equal joins are one already": [on(R1, R1), on(R1, R1)],
    "a filter below an expression that might fail": [
        f"SELECT s.n FROM (SELECT CAST(c AS BIGINT) AS n FROM a {w} WHERE c <> '{w[7]}') s JOIN b {w} ON s.n = b.k"
        for w in (R1, R2)
    ],
}


@pytest.mark.parametrize("name", SAME)
def test_shared(name: str) -> None:
    plans = roots(*SAME[name])
    assert len(joins_in(*plans)) == 1
    assert all(joins_in(plan) for plan in plans)


def test_columns_for_hints_are_made_again_above_the_shared_join() -> None:
    first, second = roots(on(R1, R1, "AND a.x + 1 < b.y"), on(R2, R2))
    (shared,) = joins_in(first, second)
    assert shared.join.comparisons == ()
    assert [c.name for c in first.schema] == ["k", "y"]
    (again,) = [n for n in first.walk() if isinstance(n, Project) and isinstance(n.child, Filter)]
    assert [e.sql for e in again.exprs] == ["c0", "c1", "c2", "c1 + 1", "c3", "c4", "c5"]


def test_a_family_that_agrees_keeps_its_comparisons() -> None:
    (shared,) = joins_in(*roots(on(R1, R1, "AND a.x < b.y"), on(R2, R2, "AND a.x < b.y")))
    assert len(shared.join.comparisons) == 1
    (shared,) = joins_in(*roots(on(R1, R1, "AND a.x < b.y"), on(R2, R2, "AND a.x > b.y")))
    assert shared.join.comparisons == ()


def test_above_a_shared_join_what_cannot_raise_guards_what_might() -> None:
    first, _ = roots(on(R1, R1, "WHERE CAST(c AS BIGINT) > 1 AND c <> ''"), on(R2, R2))
    filters = [n.predicate.text for n in first.walk() if isinstance(n, Filter)]
    assert filters == ["c <> ''", "CAST(c AS BIGINT) > 1"]


@pytest.mark.parametrize("name", APART)
def test_not_shared(name: str) -> None:
    assert joins_in(*roots(*APART[name])) == set()


def test_the_widest_windows_are_inside_and_each_query_has_its_own_sizes() -> None:
    plans = roots(on(R1, R3), on(R2, R2))
    (join,) = joins_in(*plans)
    assert [window_below(side).size for side in (join.join.left, join.join.right)] == [2_000_000, 3_000_000]
    shares = [n for plan in plans for n in plan.walk() if isinstance(n, JoinShare)]
    assert [s.sizes for s in shares] == [(1_000_000, 3_000_000), (2_000_000, 2_000_000)]
    assert not join.is_chain


def test_conditions_that_all_have_stay_inside() -> None:
    rest = "AND x < y WHERE d = 'c1'"
    plans = roots(on(R1, R1, rest), on(R2, R2, rest))
    (join,) = joins_in(*plans)
    assert isinstance(join.join.right, Filter)
    assert join.join.residual is not None
    assert all(isinstance(p, Project) and isinstance(p.child, JoinShare) for p in plans)


def test_conditions_of_one_query_are_tested_above_over_the_joined_columns() -> None:
    """A string that looks like a column is not a column."""
    first, _ = roots(on(R1, R1, "AND x < y WHERE d = 'it''s c1' AND c = 'c2'"), on(R2, R2))
    assert isinstance(first, Project)
    assert isinstance(first.child, Filter)
    assert isinstance(first.child.child, JoinShare)
    sql = first.child.predicate.sql
    assert "'it''s c1'" in sql
    assert "'c2'" in sql
    assert "c5 = 'it''s c1'" in sql
    assert "c2 = 'c2'" in sql


def test_a_query_keeps_its_names() -> None:
    bodies = [
        f"SELECT * FROM (SELECT k AS {n}, x FROM a {w}) p, (SELECT k AS r{n} FROM b {w}) q WHERE {n} = r{n}"
        for n, w in (("m", R1), ("n", R2))
    ]
    assert [[c.name for c in plan.schema] for plan in roots(*bodies)] == [["m", "x", "rm"], ["n", "x", "rn"]]


def test_shared_joins_over_streams_of_shared_joins() -> None:
    inner = [
        f"CREATE QUERY i{n} AS ISTREAM(SELECT a.k AS k, y FROM a {w} JOIN b {w} ON a.k = b.k);"
        for n, w in enumerate((R1, R2))
    ]
    outer = [f"CREATE QUERY o{n} AS SELECT b.k FROM i0 {w}, b {w} WHERE i0.k = b.k;" for n, w in enumerate((R1, R3))]
    (task,) = extract_tasks(bind(STREAMS + "".join(inner + outer)))
    found = joins_in(*(q.root for q in task.queries))
    assert len(found) == 2
    assert sum(any(isinstance(n, SharedJoin) for c in join.children for n in c.walk()) for join in found) == 1


def test_slices_groups_and_weights() -> None:
    """The reaches are 1, 2 and 12 s: the first two have the same weight per second, the third has less."""
    app = bind(
        STREAMS + "".join(f"CREATE QUERY q{i} AS {on(w, w)};" for i, w in enumerate((R1, "[RANGE 12 SECONDS]", R2, R2)))
    )
    (task,) = extract_tasks(app)
    (slices,) = join_slices(task)
    assert slices.join.reaches == (1_000_000, 2_000_000, 12_000_000)
    assert slices.queries == (("q0",), ("q2", "q3"), ("q1",))
    assert slices.served_by(1) == ("q2", "q3", "q1")
    assert slices.hull.order == "1-2,3"
    assert [w * 1_000_000 for w in slices.hull.weights] == pytest.approx([1.0, 1.0, 0.1])


def test_firm_deadlines_share_among_themselves() -> None:
    clauses = ("", "DEADLINE 1 SECOND FIRM", "DEADLINE 1 SECOND FIRM", "DEADLINE 2 SECONDS FIRM", "DEADLINE 1 SECOND")
    windows = [f"[RANGE {n} SECONDS]" for n in (5, 6, 7, 8, 9)]
    app = bind(
        STREAMS
        + "".join(
            f"CREATE QUERY q{i} {c} AS {on(w, w)};" for i, (c, w) in enumerate(zip(clauses, windows, strict=True))
        )
    )
    planned = {q.name: q.root for task in extract_tasks(app) for q in task.queries}
    found = {name: [join.reaches[-1] // 1_000_000 for join in joins_in(root)] for name, root in planned.items()}
    assert found == {"q0": [9], "q4": [9], "q1": [7], "q2": [7], "q3": []}


def test_most_random_families_are_found() -> None:
    apps = [bind(app_text(generate_family(seed))) for seed in range(40)]
    several = [app for app in apps if app.queries]
    shared = [app for app in several if joins_in(*(q.root for task in extract_tasks(app) for q in task.queries))]
    assert len(shared) > 0.7 * len(several) > 20
