"""Texts of apps are edited by whole statements."""

from __future__ import annotations

from kigen.language.editing import joined, statements_in, without_statements

TEXT = """-- streams; all of them
CREATE STREAM s (a BIGINT) FROM synthetic (rate = 1);
INCLUDE 'more; files.cql';
CREATE QUERY "Hot one" AS SELECT a FROM s [NOW] WHERE 'x;y' <> 'CREATE QUERY z';
CREATE VIEW v AS SELECT a FROM s [NOW];
CREATE QUERY last AS SELECT a FROM s [ROWS 1]  -- no semicolon
"""


def test_statements_have_kinds_names_and_places() -> None:
    found = statements_in(TEXT)
    assert [(one.kind, one.name) for one in found] == [
        ("STREAM", "s"),
        ("INCLUDE", "more; files.cql"),
        ("QUERY", "Hot one"),
        ("VIEW", "v"),
        ("QUERY", "last"),
    ]
    assert TEXT[slice(*found[2].span)].endswith("'CREATE QUERY z';")
    assert TEXT[slice(*found[2].name_span)] == '"Hot one"'
    assert TEXT[slice(*found[4].span)].endswith("[ROWS 1]")


def test_statements_are_taken_out_whole() -> None:
    found = {one.name: one for one in statements_in(TEXT)}
    left = without_statements(TEXT, [found["Hot one"], found["s"]])
    assert [one.name for one in statements_in(left)] == ["more; files.cql", "v", "last"]
    assert left.startswith("-- streams; all of them\nINCLUDE")


def test_texts_are_joined_with_a_semicolon_where_one_is_missing() -> None:
    more = "CREATE QUERY p AS SELECT a FROM s [NOW]"
    whole = joined(TEXT, more)
    assert [one.name for one in statements_in(whole)][-2:] == ["last", "p"]
    assert "[ROWS 1];  -- no semicolon\n" in whole
    assert joined("", more) == more
    assert joined("a;", "b;") == "a;\nb;"


def test_a_text_that_cannot_be_cut_has_no_statements() -> None:
    assert statements_in("CREATE QUERY q AS SELECT 'open") == []
