"""Tests of the oracle: hand-made apps with known answers, and its two evaluators against each other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from oracle.compare import Line, judge, line_difference, lines_of_csv, same_bag
from oracle.evaluate import Oracle
from oracle.expressions import COUNT_ALL, joined
from oracle.generate import generate
from oracle.render_cql import app_text, csv_text, write_app
from oracle.rfc4180 import records
from oracle.shapes import Agg, App, Col, Expr, Query, Ref, Select, SetOp, Stream, Window, Windowed
from oracle.windows import Interval, lifetimes, tie_order
from seeds import seeds

S = 1_000_000
COLS = (Col("ts", "TIMESTAMP"), Col("k", "BIGINT"), Col("v", "STRING"))


def stream(*tuples: tuple[int, int | None, str | None], name: str = "s") -> Stream:
    return Stream(name, COLS, 0, tuple((t * S, k, v) for t, k, v in tuples))


def windowed(
    kind: str, size: int = 0, slide: int | None = None, partition: tuple[int, ...] = (), source: str = "s"
) -> Windowed:
    return Windowed(source, Window(kind, kind, size, slide, partition), None, COLS)


def lives(
    kind: str, tuples: list[tuple[int, str | None]], size: int = 0, slide: int | None = None, by: bool = False
) -> list[Interval]:
    return lifetimes(Window(kind, kind, size, slide, (0,) if by else ()), [(t, (v,)) for t, v in tuples])


def column(place: int) -> Expr:
    return Expr(COLS[place].type, (Ref(0, place),))


def query(body: Select | SetOp, cols: tuple[Col, ...], kind: str | None = None, every_us: int | None = None) -> Query:
    return Query("q", body, cols, kind, every_us)


# --- windows ------------------------------------------------------------------------------------------------------


def test_range() -> None:
    # a  |====)        0..3
    # b    |====)      2..5
    assert lives("RANGE", [(0, "a"), (2, "b")], 3) == [(("a",), 0, 3), (("b",), 2, 5)]


def test_slide_moves_births_and_deaths_up_to_multiples() -> None:
    #        0    5    10   15   20
    # a(1)        |---------)          RANGE 10 SLIDE 5: 5..15
    # b(5)        |---------)          on the multiple itself: 5..15
    # c(6)             |---------)     10..20
    assert lives("RANGE", [(1, "a"), (5, "b"), (6, "c")], 10, 5) == [(("a",), 5, 15), (("b",), 5, 15), (("c",), 10, 20)]


def test_range_smaller_than_slide_shows_only_the_last_part() -> None:
    #        0         10         20     RANGE 2 SLIDE 10: seen at 10 only what came in (8, 10]
    assert lives("RANGE", [(7, "a"), (9, "b"), (10, "c")], 2, 10) == [(("b",), 10, 20), (("c",), 10, 20)]


def test_slide_before_the_epoch() -> None:
    assert lives("RANGE", [(-7, "a"), (-5, "b")], 5, 5) == [(("a",), -5, 0), (("b",), -5, 0)]


def test_rows_die_by_the_nth_later_tuple_and_ties_leave_ghosts() -> None:
    # ROWS 2:  a(0) b(1) c(1) d(1): a dies at 1; b dies with d at 1 = a ghost
    assert lives("ROWS", [(0, "a"), (1, "b"), (1, "c"), (1, "d")], 2) == [
        (("a",), 0, 1),
        (("c",), 1, None),
        (("d",), 1, None),
    ]


def test_partition_counts_null_as_a_value() -> None:
    found = lives("PARTITION", [(0, None), (1, "a"), (2, None), (3, "a")], 1, by=True)
    assert found == [((None,), 0, 2), (("a",), 1, 3), ((None,), 2, None), (("a",), 3, None)]


def test_now_and_unbounded() -> None:
    assert lives("NOW", [(4, "a")]) == [(("a",), 4, 5)]
    assert lives("UNBOUNDED", [(4, "a")]) == [(("a",), 4, None)]


def test_ties_are_ordered_by_columns_with_nulls_first() -> None:
    assert tie_order([(1, (2, "a")), (1, (None, "z")), (0, (9, None)), (1, (2, None))]) == [
        (0, (9, None)),
        (1, (None, "z")),
        (1, (2, None)),
        (1, (2, "a")),
    ]


# --- queries ------------------------------------------------------------------------------------------------------


def test_average_of_a_range_changes_at_births_and_deaths() -> None:
    # k=2 |=========)          0..2      AVG  0:2.0  1:3.0  2:4.0 (the first is gone)  3: nothing left, but a row once
    # all is empty? no k=4      |=========)     1..3
    average = joined("DOUBLE", Agg("AVG", column(1), "DOUBLE"))
    body = Select(((average, "mean"),), (windowed("RANGE", 2 * S),), aggregated=True)
    app = App(0, (stream((0, 2, "a"), (1, 4, "a"), (9, None, "b")),), (query(body, (Col("mean", "DOUBLE"),)),))
    relation = Oracle(app).relation(app.queries[0])
    assert relation.instants == [0, S, 2 * S, 3 * S, 9 * S]
    assert [list(b) for b in relation.bags] == [[(2.0,)], [(3.0,)], [(4.0,)], [], [(None,)]]


def test_a_global_aggregate_has_its_row_although_the_filter_keeps_nothing() -> None:
    count = COUNT_ALL
    body = Select(((count, "n"),), (windowed("NOW"),), where=joined("BOOLEAN", column(1), " > 5"), aggregated=True)
    app = App(0, (stream((0, 1, "a"), (1, 9, "b"), (2, 1, None)),), (query(body, (Col("n", "BIGINT"),)),))
    oracle = Oracle(app)
    for relation in (oracle.relation(app.queries[0]), oracle.relation_plainly(app.queries[0])):
        assert [list(b) for b in relation.bags] == [[(0,)], [], [(1,)], [], [(0,)]]


def test_a_global_aggregate_over_a_join_needs_only_one_side() -> None:
    count = COUNT_ALL
    body = Select(((count, "n"),), (windowed("NOW"), windowed("UNBOUNDED", source="r")), (None,), aggregated=True)
    app = App(0, (stream((0, 1, "a")), stream((1, 1, "a"), name="r")), (query(body, (Col("n", "BIGINT"),)),))
    oracle = Oracle(app)
    for relation in (oracle.relation(app.queries[0]), oracle.relation_plainly(app.queries[0])):
        assert [list(b) for b in relation.bags] == [[(0,)], [], [(0,)]]


def except_all() -> App:
    # s[RANGE 10]  a a          EXCEPT ALL r[NOW]: at 1 one of the two is taken away for a microsecond
    sides = [Select(((column(2), None),), (w,)) for w in (windowed("RANGE", 10 * S), windowed("NOW", source="r"))]
    body = SetOp("EXCEPT ALL", sides[0], sides[1], (COLS[2],))
    return App(
        0, (stream((0, 1, "a"), (0, 2, "a")), stream((1, 1, "a"), (2, 1, "b"), name="r")), (query(body, (COLS[2],)),)
    )


def test_except_all_counts() -> None:
    app = except_all()
    relation = Oracle(app).relation(app.queries[0])
    assert relation.instants == [0, S, S + 1, 2 * S]
    assert [b[("a",)] for b in relation.bags] == [2, 1, 2, 2]


@pytest.mark.parametrize(
    ("kind", "every", "expected"),
    [
        ("ISTREAM", None, [(0, "a"), (0, "a"), (S + 1, "a")]),
        ("DSTREAM", None, [(S, "a")]),
        ("RSTREAM", None, [(0, "a"), (0, "a"), (S, "a"), (S + 1, "a"), (S + 1, "a")]),
        ("RSTREAM", 2 * S, [(0, "a"), (0, "a"), (2 * S, "a"), (2 * S, "a")]),
    ],
)
def test_relation_to_stream(kind: str, every: int | None, expected: list[tuple[int, str]]) -> None:
    app = except_all()
    q = query(app.queries[0].body, app.queries[0].cols, kind, every)
    assert Oracle(App(0, app.streams, (q,))).stream(q) == [(t, (v,)) for t, v in expected]


# --- the judgement ------------------------------------------------------------------------------------------------


def test_judge_accepts_any_cut_of_lifetimes_and_refuses_wrong_ones() -> None:
    app = except_all()
    oracle, q = Oracle(app), app.queries[0]
    right = [Line(("a",), 0, 10 * S), Line(("a",), 0, S), Line(("a",), S + 1, 10 * S)]
    assert judge(oracle, q, right) == ""
    assert judge(oracle, q, [*right, Line(("b",), 5, 5)]) == ""  # a ghost
    assert judge(oracle, q, [Line(("a",), 0, None), Line(("a",), 0, S), Line(("a",), S + 1, None)]) == ""
    assert "missing [('a',)]" in judge(oracle, q, right[:2])
    assert "extra   [('b',)]" in judge(oracle, q, [*right, Line(("b",), 5, 6)])
    assert "after the last timestamp" in judge(oracle, q, [*right, Line(("a",), 3 * S, None)])


def test_doubles_agree_to_a_billionth_and_null_is_not_empty() -> None:
    assert same_bag(Counter([(0.1 + 0.2, "a")]), Counter([(0.3, "a")]))
    assert not same_bag(Counter([(0.3, "a")]), Counter([(0.3001, "a")]))
    assert not same_bag(Counter([("",)]), Counter([(None,)]))
    assert line_difference([Line((1.0,), 0, 5)], [Line((1.0 + 1e-12,), 0, 5)]) == ""
    assert line_difference([Line((1.0,), 0, 5)], [Line((1.0,), 0, 6)]) != ""


def test_csv_keeps_null_and_empty_apart(tmp_path: Path) -> None:
    assert records('a,b\n"",\n"x""y\nz",é\n') == [["a", "b"], ["", None], ['x"y\nz', "é"]]
    q = query(except_all().queries[0].body, (COLS[2],))
    (tmp_path / "q.csv").write_text(
        'v,_from,_to\n"",1970-01-01T00:00:01.000000Z,\n,1970-01-01T00:00:00.000005Z,1970-01-01T00:00:02.000000Z\n'
    )
    assert lines_of_csv(tmp_path / "q.csv", q) == [Line(("",), S, None), Line((None,), 5, 2 * S)]


# --- the generator ------------------------------------------------------------------------------------------------


def test_a_seed_is_an_app(tmp_path: Path) -> None:
    app = generate(7)
    assert app_text(app) == app_text(generate(7))
    assert app_text(app) != app_text(generate(8))
    assert write_app(app, tmp_path).read_text(encoding="utf-8") == app_text(app)
    assert all(len(records(csv_text(s))) == len(s.rows) + 1 for s in app.streams)


@pytest.mark.parametrize("seed", seeds(7, 15, first=900))
def test_all_instants_at_once_answer_as_each_alone(seed: int) -> None:
    oracle = Oracle(generate(seed))
    for q in oracle.app.queries:
        together, alone = oracle.relation(q), oracle.relation_plainly(q)
        assert together.instants == alone.instants
        assert all(same_bag(a, b) for a, b in zip(together.bags, alone.bags, strict=True)), q
