"""Orders of events drawn at random, where all of them are too many: six tuples, several crashes, returns, wrong
suspicions and cuts."""

from __future__ import annotations

from typing import Any

import pytest
from kigen_lab.simulate.standby.machine.topology import Mode
from protocol.cases import CHECKS, OPERATORS, Case, chain, join, one_chain, two_nodes
from protocol.explore import wander

PAIR = {"N.0", "N.1"}
MODES: list[tuple[Mode, float]] = [("active", 1), ("lazy", 2), ("lazy", 3), ("upstream", 1)]
FAULTS = {"crash": 3, "back": 3, "suspect": 2, "cut": 2}


def walk(case: Case, crashable: set[str], recovery: str = "precise", seeds: int = 10) -> None:
    for seed in range(seeds):
        wander(*case.checked(CHECKS[recovery]), crashable, seed)


@pytest.mark.parametrize("returning", ["rebuild", "copy"])
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(("mode", "batch"), MODES)
def test_one_node(mode: Mode, batch: float, operator: str, returning: str) -> None:
    walk(one_chain(chain(mode, batch, returning=returning), OPERATORS[operator], 6, **FAULTS), PAIR)


@pytest.mark.parametrize("returning", ["rebuild", "copy"])
@pytest.mark.parametrize(
    ("first", "second"), [(1, 1), (2, 2), (2, float("inf")), (float("inf"), 2), (float("inf"), float("inf"))]
)
def test_two_neighbours(first: float, second: float, returning: str) -> None:
    walk(
        two_nodes(first, second, 6, returning, "selection", crash=2, cut=1, back=2, suspect=1),
        PAIR | {"M.0", "M.1"},
        seeds=15,
    )


@pytest.mark.parametrize("returning", ["rebuild", "copy"])
@pytest.mark.parametrize(("mode", "batch"), MODES)
def test_a_join_of_two_streams(mode: Mode, batch: float, returning: str) -> None:
    """Once a copy was taken amid a replay: seeds of `copy` failed."""
    walk(join(mode, batch, returning, crash=2, back=2, suspect=2, cut=2), PAIR, seeds=25)


@pytest.mark.parametrize("operator", OPERATORS)
def test_passive(operator: str) -> None:
    walk(one_chain(chain("passive"), OPERATORS[operator], 6, crash=1, copy=4, suspect=1, cut=1), PAIR)


def test_passive_with_both_dead_is_stuck_and_says_so() -> None:
    case = one_chain(chain("passive"), OPERATORS["rows"], 6, crash=2, copy=4, back=1)
    walk(case, PAIR, seeds=60)
    assert case.seen["stuck"], "no order of events lost both copies"


@pytest.mark.parametrize(
    ("recovery", "operator"), [("rollback", "selection"), ("rollback", "rows"), ("gap", "selection")]
)
@pytest.mark.parametrize("mode", ["active", "lazy", "upstream"])
def test_weaker_recoveries(mode: Any, recovery: Any, operator: str) -> None:
    """Gap: a second takeover must not mistake the numbers of the first (seeds of `active` failed)."""
    case = one_chain(chain(mode, 2, recovery), OPERATORS[operator], 6, crash=2, back=1, suspect=1, cut=1)
    walk(case, PAIR, recovery, seeds=40)
    assert case.seen[recovery]


@pytest.mark.parametrize(("suspect", "seed"), [(0, 671), (1, 363)])
def test_a_new_primary_acknowledges_only_when_all_upstream_have_answered(suspect: int, seed: int) -> None:
    """Orders in which an earlier ack would leave two upstream nodes trimmed against positions that no replica can begin
    at."""
    case = (
        join("lazy", 2, "rebuild", crash=2, back=1, suspect=suspect)
        if suspect
        else join("lazy", 2, "rebuild", crash=2, back=1)
    )
    wander(*case.checked(), PAIR, seed)
