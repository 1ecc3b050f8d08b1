"""All orders of all events, for small cases. Precise: the undisturbed output, whatever dies. Rollback: duplicates only.
Gap: losses only.

What is too large for all orders is in `test_wander.py`.
"""

from __future__ import annotations

import pytest
from kigen_lab.simulate.standby.machine.topology import Mode
from protocol.cases import CHECKS, OPERATORS, chain, one_chain, two_nodes
from protocol.explore import explore

PAIR = {"N.0", "N.1"}
MODES: list[tuple[Mode, float, int]] = [("active", 1, 2), ("lazy", 2, 3), ("lazy", 3, 3), ("upstream", 1, 3)]


@pytest.mark.parametrize("operator", ["selection", "rows"])
@pytest.mark.parametrize(("mode", "batch", "tuples"), MODES)
def test_a_crash_of_either_replica(mode: Mode, batch: float, tuples: int, operator: str) -> None:
    case = one_chain(chain(mode, batch), OPERATORS[operator], tuples, crash=1)
    found = explore(*case.checked(kept=0 if operator == "selection" else 2), PAIR)
    assert found.takeovers > 10


@pytest.mark.parametrize("operator", ["selection", "range"])
@pytest.mark.parametrize("mode", ["lazy", "upstream"])
def test_a_primary_that_was_only_slow_is_fenced(mode: Mode, operator: str) -> None:
    case = one_chain(chain(mode), OPERATORS[operator], 2, suspect=1)
    assert explore(*case.checked(), set()).at_rest > 1


def test_slow_twice() -> None:
    """The one that was fenced stands by, and takes over again."""
    explore(*one_chain(chain("upstream"), OPERATORS["rows"], 1, suspect=2).checked(), set())


@pytest.mark.parametrize("mode", ["active", "lazy"])
def test_slow_first_then_dead(mode: Mode) -> None:
    explore(*one_chain(chain(mode), OPERATORS["rows"], 1, suspect=1, crash=1).checked(), PAIR)


@pytest.mark.parametrize("operator", ["selection", "rows"])
def test_a_cut_link_and_a_crash(operator: str) -> None:
    explore(*one_chain(chain("lazy", 1), OPERATORS[operator], 1, cut=1, crash=1).checked(), PAIR)


@pytest.mark.parametrize("returning", ["rebuild", "copy"])
def test_the_dead_come_back(returning: str) -> None:
    explore(*one_chain(chain("lazy", 2, returning=returning), OPERATORS["rows"], 1, crash=1, back=1).checked(), PAIR)


def test_passive_copies_and_a_crash() -> None:
    explore(*one_chain(chain("passive"), OPERATORS["rows"], 2, crash=1, copy=1).checked(), PAIR)


@pytest.mark.parametrize("recovery", ["rollback", "gap"])
def test_weaker_recoveries_break_only_what_they_may(recovery: str) -> None:
    case = one_chain(chain("lazy", 2, recovery=recovery), OPERATORS["selection"], 3, crash=1)
    explore(*case.checked(CHECKS[recovery]), PAIR)
    assert case.seen[recovery], f"no order of events showed what {recovery} may do: the test shows nothing"


@pytest.mark.parametrize(("first", "second"), [(1, float("inf")), (float("inf"), float("inf"))])
def test_two_neighbours_at_once(first: float, second: float) -> None:
    explore(*two_nodes(first, second, 1, crash=2).checked(), {"N.0", "M.0"})
