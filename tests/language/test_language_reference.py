"""Tests that every example of the language reference binds, and that the error it shows is the error that users see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kigen.language import CqlErrors
from kigen.plan import bind
from kigen.plan.connectors.registry import names_for
from kigen.plan.explain import explain

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "language.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: re.findall(r"QUERY (\w+)", e)[0])
def test_example_binds(example: str) -> None:
    app = bind(example, "language.md")
    assert app.queries
    assert all(query.name in explain(app) for query in app.queries)


def test_the_error_shown_is_the_one_given() -> None:
    (shown,) = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)
    streams = (
        "CREATE STREAM s (a BIGINT) FROM synthetic (rate = 1);\nCREATE STREAM t (e BIGINT) FROM synthetic "
        "(rate = 1);\n\n\n"
    )
    with pytest.raises(CqlErrors) as caught:
        bind(f"{streams}CREATE QUERY q AS\n  SELECT tmp FROM s [ROWS 5] JOIN t [NOW] ON s.a = t.ee;", "app.sql")
    assert caught.value.render() + "\n" == shown


def test_every_connector_is_described() -> None:
    assert all(
        f"`{name}`" in TEXT or f"`INTO {name}" in TEXT
        for name in (*names_for("source"), *names_for("table"), *names_for("sink"))
    )
