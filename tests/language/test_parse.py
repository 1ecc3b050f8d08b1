"""Tests the parsing of app files into declarations: clauses, windows, comments, spelling."""

from __future__ import annotations

import pytest
from sqlglot import exp

from kigen.language import QueryDecl, StreamDecl, parse_app
from kigen.language.declarations import WindowDecl


def one(text: str) -> StreamDecl | QueryDecl:
    app = parse_app(text)
    assert app.errors == []
    (statement,) = app.statements
    return statement


def stream(text: str) -> StreamDecl:
    found = one(text)
    assert isinstance(found, StreamDecl)
    return found


def query(text: str) -> QueryDecl:
    found = one(text)
    assert isinstance(found, QueryDecl)
    return found


def window(text: str) -> WindowDecl:
    body = query(f"CREATE QUERY q AS SELECT * FROM s {text}").body
    table = body.find(exp.Table)
    assert table is not None
    found = table.meta["window"]
    assert isinstance(found, WindowDecl)
    return found


def test_stream_clauses_in_any_order() -> None:
    clauses = [
        "TIMESTAMP BY ts",
        "FROM csv (path = 'x.csv')",
        "LATENESS 1.5 SECONDS",
        "ON ERROR SKIP",
        "SHED ABOVE 10 PER SECOND BY a + 1 INTO csv (path = 'shed')",
        "BUFFER 7",
    ]
    for turn in range(len(clauses)):
        decl = stream(f"CREATE STREAM s (a BIGINT, ts TIMESTAMP) {' '.join(clauses[turn:] + clauses[:turn])};")
        assert decl.timestamp is not None
        assert decl.timestamp.text == "ts"
        assert decl.source is not None
        assert decl.source.name.text == "csv"
        assert (decl.lateness_us, decl.on_error_skip, decl.buffer) == (1_500_000, True, 7)
        assert decl.shed is not None
        assert isinstance(decl.shed.by, exp.Add)
        assert decl.shed.into is not None


def test_option_values() -> None:
    decl = stream(
        "CREATE STREAM s (a BIGINT) FROM synthetic (rate = 1_000, skew = -1.5, name = 'it''s', on = TRUE, off = false);"
    )
    assert decl.source is not None
    assert {o.key.text: o.value for o in decl.source.options} == {
        "rate": 1000,
        "skew": -1.5,
        "name": "it's",
        "on": True,
        "off": False,
    }


def test_query_clauses() -> None:
    decl = query(
        "CREATE QUERY q COST 5 MICROSECONDS DEADLINE 1 MINUTE FIRM AS SELECT a FROM s [NOW] INTO csv (path = 'out');"
    )
    assert (decl.deadline_us, decl.firm, decl.cost_us) == (60_000_000, True, 5)
    assert decl.into is not None
    assert decl.into.options[0].value == "out"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[RANGE 10 SECONDS]", ("RANGE", 10_000_000, None, ())),
        ("[range 1 second]", ("RANGE", 1_000_000, None, ())),
        ("[RANGE 1 HOUR SLIDE 5 MINUTES]", ("RANGE", 3_600_000_000, 300_000_000, ())),
        ("[RANGE 3 MICROSECONDS SLIDE 1 MILLISECOND]", ("RANGE", 3, 1000, ())),
        ("[RANGE 0.5 SECONDS]", ("RANGE", 500_000, None, ())),
        ("[ROWS 7]", ("ROWS", 7, None, ())),
        ('[PARTITION BY a, "B c" ROWS 2]', ("PARTITION", 2, None, ("a", "B c"))),
        ("[NOW]", ("NOW", 0, None, ())),
        ("[Unbounded]", ("UNBOUNDED", 0, None, ())),
        ("[ROWS /* a few */ 3] AS x", ("ROWS", 3, None, ())),
        ("[ROWS 3] x", ("ROWS", 3, None, ())),
        ("[ROWS 3] WHERE a > 1", ("ROWS", 3, None, ())),
    ],
)
def test_windows(text: str, expected: tuple[str, int, int | None, tuple[str, ...]]) -> None:
    found = window(text)
    assert (found.kind, found.size, found.slide_us, tuple(n.text for n in found.partition)) == expected


@pytest.mark.parametrize("operator", ["ISTREAM", "dstream", "RSTREAM", "RSTREAM[5 SECONDS]", "rstream [ 5 seconds ]"])
@pytest.mark.parametrize(
    "body", ["SELECT a FROM s [NOW]", "SELECT a FROM s [NOW] UNION ALL SELECT b FROM t [ROWS 1] AS z WHERE b > 1"]
)
def test_stream_operators_around_any_query(operator: str, body: str) -> None:
    decl = query(f"CREATE QUERY q AS {operator}({body}) INTO console;")
    assert decl.stream_op is not None
    assert decl.stream_op.kind == operator[:7].upper()
    assert decl.stream_op.every_us == (5_000_000 if "5" in operator else None)
    assert isinstance(decl.body, exp.Union if "UNION" in body else exp.Select)


def test_intersect_binds_tighter() -> None:
    body = query(
        "CREATE QUERY q AS SELECT a FROM s [NOW] UNION ALL SELECT a FROM t [NOW] INTERSECT SELECT a FROM u [NOW]"
    ).body
    assert isinstance(body, exp.Union)
    assert body.expression.find(exp.Intersect) is not None


def test_comments_and_empty_statements() -> None:
    app = parse_app(
        "-- first\n;;\n/* a ; b */ CREATE STREAM s (a /* c */ BIGINT) -- d ; e\n FROM synthetic (rate = 1) ; -- last"
    )
    assert app.errors == []
    assert [s.name.text for s in app.statements] == ["s"]


def test_an_empty_file_declares_nothing() -> None:
    assert parse_app("  -- nothing\n").statements == []


def test_places_are_those_of_the_text() -> None:
    text = "CREATE QUERY q AS\n  SELECT a, upper(c) AS u FROM s [ROWS 3] WHERE a + 1 > 2;"
    app = parse_app(text)
    (decl,) = app.statements
    assert isinstance(decl, QueryDecl)
    assert app.source.slice(decl.name.span) == "q"
    where = decl.body.args["where"].this
    start, end = where.meta["span"]
    assert text[start:end] == "a + 1 > 2"
    start, end = decl.body.expressions[1].this.meta["span"]
    assert text[start:end] == "upper(c)"


def test_a_broken_statement_does_not_hide_the_next() -> None:
    app = parse_app(
        "CREATE STREAM s (a BIGINT FROM x;\nCREATE QUERY q AS SELECT a FROM s [NOW];\nCREATE NONSENSE;\nCREATE QUERY "
        "r AS SELECT 1 +;"
    )
    assert [s.name.text for s in app.statements] == ["q"]
    assert [e.line for e in app.errors] == [1, 3, 4]


def test_a_forgotten_semicolon_is_one_error() -> None:
    app = parse_app("CREATE QUERY q AS SELECT a FROM s [NOW]\nCREATE QUERY r AS SELECT a FROM q;")
    assert [s.name.text for s in app.statements] == ["q", "r"]
    assert [(e.line, e.column) for e in app.errors] == [(1, 39)]
