"""What a run does not act on yet, it says."""

from __future__ import annotations

from kigen.cli.run import without_effect
from kigen.plan import bind

APP = """
CREATE STREAM s (k STRING, v DOUBLE) FROM synthetic (rate = 5, duration = '1 s') SHED ABOVE 3 PER SECOND BY v BUFFER 10;
CREATE STREAM t (k STRING) FROM synthetic (rate = 5, duration = '1 s');
CREATE QUERY a DEADLINE 2 SECONDS FIRM COST 5 MICROSECONDS AS SELECT k FROM s [ROWS 3];
CREATE QUERY b DEADLINE 2 SECONDS AS SELECT k FROM t [ROWS 3];
"""


def test_clauses_that_nothing_acts_on_are_named() -> None:
    assert without_effect(bind(APP)) == ["SHED of s", "BUFFER of s", "FIRM of a", "COST of a"]
