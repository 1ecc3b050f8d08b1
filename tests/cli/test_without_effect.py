"""Checks that a run names the clauses that have no effect in it."""

from __future__ import annotations

from kigen.cli.run_command import without_effect
from kigen.plan import bind

APP = """
CREATE STREAM s (v BIGINT) FROM synthetic (rate = 1, v = 'sequence') SHED ABOVE 5 PER SECOND BUFFER 10;
CREATE QUERY a DEADLINE 1 SECONDS FIRM COST 5 MICROSECONDS AS SELECT v FROM s [ROWS 1];
CREATE QUERY b DEADLINE 1 SECONDS AS SELECT v FROM s [ROWS 2];
"""


def test_a_drain_drops_nothing() -> None:
    notes = without_effect(bind(APP), drain=True)
    assert [note.split(" has no effect")[0] for note in notes] == ["BUFFER of s", "SHED of s", "FIRM of a"]


def test_a_live_run_acts_on_all_but_buffers() -> None:
    assert without_effect(bind(APP), drain=False) == []
