"""Who leads and who keeps copies: of two that hear each other one leads; nobody takes over who hears a leader that is
read."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from kigen.replicas.passive_election import (
    BOTH_S,
    COPIES,
    DONE,
    GRACE_S,
    LEADS,
    UNDECIDED,
    UNFOLLOWED_S,
    UNREACHED_S,
    Me,
    Other,
    next_role,
)


@pytest.mark.parametrize(("first", "second"), list(product((0, 3, 7), repeat=2)))
@pytest.mark.parametrize("quicker", [0, 1])
def test_of_two_that_were_started_one_leads(first: int, second: int, quicker: int) -> None:
    """Whoever decides first, the one whose files are further, or the first."""
    roles, positions = [UNDECIDED, UNDECIDED], (first, second)
    for replica in (quicker, 1 - quicker, quicker, 1 - quicker):
        me = Me(replica, roles[replica], positions[replica], up_s=60, asked_s=2)
        roles[replica] = next_role(me, Other(True, roles[1 - replica], positions[1 - replica]))[0]
    assert roles == ([COPIES, LEADS] if second > first else [LEADS, COPIES])


def test_one_alone_waits_for_the_other_a_while_and_for_readers() -> None:
    me = Me(0, up_s=GRACE_S - 1, asked_s=2)
    assert next_role(me, Other())[0] == UNDECIDED
    assert next_role(replace(me, up_s=GRACE_S), Other())[0] == LEADS
    assert next_role(replace(me, up_s=GRACE_S, asked_s=0), Other())[0] == UNDECIDED


CUT_OFF = Other(True, LEADS, followed=True, deaf=True)
KEEPS = Me(1, COPIES, up_s=60, asked_s=0.1, saw_it_lead=True)


@pytest.mark.parametrize(
    ("me", "other", "role"),
    [
        (KEEPS, Other(False, LEADS), LEADS),
        (replace(KEEPS, asked_s=0), Other(False, LEADS), COPIES),  # only these two cannot hear each other
        (KEEPS, Other(True, LEADS, followed=True), COPIES),  # a reader was hasty
        (replace(KEEPS, asked_s=60), Other(True, LEADS, followed=True), COPIES),
        (KEEPS, Other(True, LEADS), COPIES),
        (replace(KEEPS, asked_s=UNREACHED_S), Other(True, LEADS), LEADS),  # readers cannot reach it
        (replace(KEEPS, asked_s=0, hears_s=UNREACHED_S), CUT_OFF, LEADS),  # only it is cut off
        (replace(KEEPS, asked_s=0, hears_s=1), CUT_OFF, COPIES),  # it may be about to hear again
        (replace(KEEPS, asked_s=0), CUT_OFF, COPIES),  # so is this one
        (KEEPS, Other(True, UNDECIDED, 9), LEADS),  # it was killed and is back, cold
        (replace(KEEPS, saw_it_lead=False), Other(True, UNDECIDED, 9), COPIES),  # both were started: it will lead
        (replace(KEEPS, saw_it_lead=False, position=9), Other(True, COPIES, 3), LEADS),
        (KEEPS, Other(True, DONE), DONE),
        (KEEPS, Other(False, DONE), LEADS),
        (Me(1, UNDECIDED), Other(True, LEADS), COPIES),
    ],
)
def test_taking_over(me: Me, other: Other, role: str) -> None:
    assert next_role(me, other)[0] == role


RUNS = Me(0, LEADS, up_s=60, saw_it_lead=True)


@pytest.mark.parametrize(
    ("me", "other", "role"),
    [
        (RUNS, Other(False), LEADS),
        (replace(RUNS, unfollowed_s=99), Other(False, LEADS, followed=True), LEADS),
        (replace(RUNS, unfollowed_s=99), Other(True, LEADS), LEADS),  # nobody reads the other, either
        (replace(RUNS, unfollowed_s=99), Other(True, COPIES), LEADS),
        (replace(RUNS, unfollowed_s=UNFOLLOWED_S), Other(True, LEADS, followed=True), COPIES),  # it was asleep
        (replace(RUNS, both_s=99), Other(True, LEADS, followed=True), LEADS),
        (replace(RUNS, both_s=BOTH_S, replica=1), Other(True, LEADS, followed=True), COPIES),
        (replace(RUNS, unfollowed_s=99, hears_s=9), CUT_OFF, LEADS),  # or both would turn about for ever
        (replace(RUNS, both_s=BOTH_S, replica=1, hears_s=9), CUT_OFF, LEADS),
        (replace(RUNS, unfollowed_s=99), CUT_OFF, COPIES),  # both are cut off
    ],
)
def test_stepping_down(me: Me, other: Other, role: str) -> None:
    assert next_role(me, other)[0] == role
