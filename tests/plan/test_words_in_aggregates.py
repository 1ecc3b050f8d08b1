"""TRUE, FALSE and NULL as arguments of aggregates: the parser keeps no place of these words, so the binder finds it."""

from __future__ import annotations

import pytest

from kigen.plan import bind
from kigen.plan.logical import Project

APP = """
CREATE STREAM s (a BIGINT, b DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');
CREATE QUERY q AS SELECT a, {call} AS x FROM s [ROWS 9] GROUP BY a;
"""


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("arg_min(false, b)", ["false"]),
        ("arg_min(FALSE, b) FILTER (WHERE b > 1)", ["FALSE"]),
        ("arg_max(TRUE, FALSE)", ["TRUE", "FALSE"]),
        ("first(TRUE ORDER BY FALSE) FILTER (WHERE a IS NULL)", ["TRUE", "FALSE"]),
        ("arg_max(b, NULL) FILTER (WHERE b IS NOT NULL)", ["NULL where b IS NOT NULL"]),
    ],
)
def test_a_word_keeps_its_place(call: str, arguments: list[str]) -> None:
    (query,) = bind(APP.format(call=call)).queries
    below = next(node for node in query.root.walk() if isinstance(node, Project))
    texts = [expr.text for expr in below.exprs]
    assert [text for text in texts if text in arguments] == arguments
