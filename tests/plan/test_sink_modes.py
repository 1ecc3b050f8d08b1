"""Modes and keys of INTO: what is accepted, what is refused and where, and the warning for deadlines into append."""

from __future__ import annotations

from typing import Any

import pytest

from kigen.language import CqlErrors
from kigen.plan.binder import bind
from kigen.plan.connectors.registry import REGISTRY
from kigen.plan.connectors.spec import ConnectorSpec
from kigen.plan.logical import CHANGES, LINES, UPSERTS, Query

STREAM = "CREATE STREAM s (k STRING, v BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv')"


@pytest.fixture(autouse=True)
def keyed_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink with every mode."""
    spec = ConnectorSpec("keeper", sink="never:opened", modes=("append", "changes", "upsert"))
    monkeypatch.setitem(REGISTRY.known, "keeper", spec)


def query(into: str, body: str = "SELECT k, v FROM s [ROWS 3]", clauses: str = "") -> tuple[Query, Any]:
    app = bind(f"{STREAM};\nCREATE QUERY q {clauses} AS {body} INTO {into};")
    return app.queries[0], app.warnings


@pytest.mark.parametrize(
    ("into", "gives", "key"),
    [
        ("csv (path = 'o.csv')", LINES, ()),
        ("csv (path = 'o.csv', mode = 'append')", LINES, ()),
        ("csv (path = 'o.csv', mode = 'changes')", CHANGES, ()),
        ("jsonl (path = 'o.jsonl', mode = 'changes')", CHANGES, ()),
        ("console (mode = 'changes')", CHANGES, ()),
        ("keeper (mode = 'upsert', key = 'K')", UPSERTS, (0,)),
        ("keeper (mode = 'upsert', key = 'v, k')", UPSERTS, (1, 0)),
    ],
)
def test_what_a_mode_gives(into: str, gives: str, key: tuple[int, ...]) -> None:
    found, _ = query(into)
    assert found.gives == {gives: "q"}
    assert found.key == key


@pytest.mark.parametrize(
    ("into", "body", "message", "underlined"),
    [
        ("csv (path = 'o.csv', mode = 'upsert')", "SELECT k FROM s [ROWS 3]", "option mode needs 'append' or 'changes'", "'upsert'"),
        ("keeper (mode = 'upsert')", "SELECT k FROM s [ROWS 3]", "mode 'upsert' needs option key", "'upsert'"),
        ("keeper (mode = 'upsert', key = 'room')", "SELECT k FROM s [ROWS 3]", "query q has no column room", "'room'"),
        ("keeper (mode = 'upsert', key = 'k, K')", "SELECT k FROM s [ROWS 3]", "key names each of its columns once", "'k, K'"),
        ("keeper (key = 'k')", "SELECT k FROM s [ROWS 3]", "key has no meaning with mode 'append'", "'k'"),
        ("keeper (mode = 'upsert', key = 'k')", "ISTREAM(SELECT k FROM s [ROWS 3])", "mode 'upsert' needs a relation, and query q is a stream", "'upsert'"),
        ("keeper (mode = 'upsert', key = 'n')", "SELECT CAST(NULL AS BIGINT) AS n, k FROM s [ROWS 3]", "column n is always NULL, so it cannot be a key", "'n'"),
        ("csv (path = 'o.csv', mode = 'changes')", "SELECT k AS _op FROM s [ROWS 3]", "the output of query q has a column _op, a name that is reserved for lifetimes", "_op"),
    ],
)  # fmt: skip
def test_what_is_refused(into: str, body: str, message: str, underlined: str) -> None:
    with pytest.raises(CqlErrors) as found:
        query(into, body)
    (error,) = found.value.errors
    assert (error.message, error.underlined) == (message, underlined)
    assert error.hint


def test_rows_that_are_shed_are_appended() -> None:
    text = STREAM + " SHED ABOVE 5 PER SECOND INTO csv (path = 'shed.csv', mode = 'changes');"
    with pytest.raises(CqlErrors, match="these rows have no lifetime: mode 'append' is required"):
        bind(text + "CREATE QUERY q AS SELECT k FROM s [ROWS 3]")


@pytest.mark.parametrize(
    ("into", "body", "warns"),
    [
        ("csv (path = 'o.csv')", "SELECT k FROM s [ROWS 3]", True),
        ("csv (path = 'o.csv', mode = 'changes')", "SELECT k FROM s [ROWS 3]", False),
        ("csv (path = 'o.csv')", "ISTREAM(SELECT k FROM s [ROWS 3])", False),
        ("csv (path = 'o.csv')", "SELECT k FROM s [NOW] WHERE v > 3", False),
    ],
)
def test_a_relation_with_a_deadline_into_append_is_warned_of(into: str, body: str, warns: bool) -> None:
    _, warnings = query(into, body, "DEADLINE 2 SECONDS")
    assert len(warnings) == warns
    if warns:
        assert "mode 'append' writes a row only when its death is known" in warnings[0].message
        assert warnings[0].hint == "to learn of rows at their birth, write mode = 'changes' or ISTREAM(...)"
    assert not query(into, body)[1]
