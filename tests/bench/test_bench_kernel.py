"""Checks the kernel alone: numbers of result rows for the paper's data with any window, steady state, and memory."""

from __future__ import annotations

import pytest
from kigen_lab.bench.lifetimes.kernel import run_kernel
from kigen_lab.bench.lifetimes.memory import measure
from kigen_lab.bench.lifetimes.newer_queries import BY_NAME, NAMED, NEWER, PARTS
from kigen_lab.bench.lifetimes.queries import KINDS
from kigen_lab.bench.steady import BatchEnd, steady_rate

ROWS = {"selection": 3_996, "projection": 4_000, "union": 4_000, "join": 2_000, "except": 2_000}


@pytest.mark.parametrize("lifetime", ["dt", "nt"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ROWS)
def test_rows_do_not_depend_on_the_window(name: str, kind: str, lifetime: str) -> None:
    for window in (10, 1_000):
        run = run_kernel(BY_NAME[name], kind, window, lifetime, 4_000, 700)
        assert (run.tuples, run.rows) == (4_000, ROWS[name])
        assert run.rate > 0


@pytest.mark.parametrize("lifetime", ["dt", "nt"])
def test_average_changes_with_every_birth_and_death(lifetime: str) -> None:
    """With windows of 8, births and deaths of a group coincide: one row per tuple. With windows of 10, they are two
    milliseconds apart: two rows.
    """
    together = run_kernel(BY_NAME["average"], "range", 8, lifetime, 4_000, 700).rows
    apart = run_kernel(BY_NAME["average"], "range", 10, lifetime, 4_000, 700).rows
    assert together == 4_000
    assert 2 * 4_000 - 20 < apart < 2 * 4_000


@pytest.mark.parametrize("name", [query.name for query in (*NEWER, *NAMED)])
def test_newer_queries_have_the_same_rows_with_both_methods_and_any_blocks(name: str) -> None:
    for kind in BY_NAME[name].kinds:
        runs = [run_kernel(BY_NAME[name], kind, 40, *how) for how in (("dt", 3_000, 700), ("nt", 3_000, 1_300))]
        assert runs[0].rows == runs[1].rows > 0


def test_queries_that_take_long_run_only_if_they_are_named() -> None:
    assert not {query.name for query in NAMED} & {query.name for query in PARTS["all"]}


def test_every_row_of_a_left_join_is_alone_before_its_partner_comes() -> None:
    """A tuple of STRb0 is half a millisecond older than its partner."""
    for window in (10, 1_000):
        assert run_kernel(BY_NAME["left_join"], "range", window, "dt", 4_000, 700).rows == 4_000


def test_steady_state_leaves_out_the_start_and_the_filling_of_the_window() -> None:
    marks = [
        BatchEnd(0.0, 10),
        BatchEnd(9.0, 20),
        BatchEnd(18.0, 30),
        BatchEnd(19.0, 40),
        BatchEnd(20.0, 50),
        BatchEnd(21.0, 60),
    ]
    assert steady_rate(marks, window=30) == pytest.approx(10.0)
    assert steady_rate(marks, window=5) == pytest.approx(40 / 12)
    assert steady_rate(marks[:2], window=5) == pytest.approx(10 / 9)
    with pytest.raises(ValueError, match="more tuples"):
        steady_rate(marks[:1], window=5)


def test_memory_counts_the_window_only() -> None:
    measured = measure(BY_NAME["join"], "range", 4_000, "dt")
    assert measured["state_over_arrow"] == pytest.approx(measured["state_bytes"] / measured["arrow_bytes"], abs=0.05)
    assert measured["state_bytes"] > measured["arrow_bytes"] / 2
