"""Passive election: of two replicas that hear each other one leads; a replica that hears a leader with readers does not
take over."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from kigen.replicas.passive_election import BOTH_S, GRACE_S, UNFOLLOWED_S, UNREACHED_S, PassiveElection, next_role
from kigen.replicas.roles import COPIES, DONE, LEADS, UNDECIDED, OtherReplica, ThisReplica


@pytest.mark.parametrize(("first", "second"), list(product((0, 3, 7), repeat=2)))
@pytest.mark.parametrize("quicker", [0, 1])
def test_of_two_that_were_started_one_leads(first: int, second: int, quicker: int) -> None:
    """Whoever decides first, the one whose files are further, or the first."""
    roles, positions = [UNDECIDED, UNDECIDED], (first, second)
    for replica in (quicker, 1 - quicker, quicker, 1 - quicker):
        this = ThisReplica(replica, roles[replica], positions[replica], up_s=60, asked_s=2)
        roles[replica] = next_role(this, OtherReplica(True, roles[1 - replica], positions[1 - replica]))[0]
    assert roles == ([COPIES, LEADS] if second > first else [LEADS, COPIES])


def test_one_alone_waits_for_the_other_a_while_and_for_readers() -> None:
    this = ThisReplica(0, up_s=GRACE_S - 1, asked_s=2)
    assert next_role(this, OtherReplica())[0] == UNDECIDED
    assert next_role(replace(this, up_s=GRACE_S), OtherReplica())[0] == LEADS
    assert next_role(replace(this, up_s=GRACE_S, asked_s=0), OtherReplica())[0] == UNDECIDED


CUT_OFF = OtherReplica(True, LEADS, followed=True, cut_off=True)
KEEPS = ThisReplica(1, COPIES, up_s=60, asked_s=0.1, saw_other_lead=True)


@pytest.mark.parametrize(
    ("this", "other", "role"),
    [
        (KEEPS, OtherReplica(False, LEADS), LEADS),
        (replace(KEEPS, asked_s=0), OtherReplica(False, LEADS), COPIES),  # only these two cannot hear each other
        (KEEPS, OtherReplica(True, LEADS, followed=True), COPIES),  # a reader was hasty
        (replace(KEEPS, asked_s=60), OtherReplica(True, LEADS, followed=True), COPIES),
        (KEEPS, OtherReplica(True, LEADS), COPIES),
        (replace(KEEPS, asked_s=UNREACHED_S), OtherReplica(True, LEADS), LEADS),  # readers cannot reach it
        (replace(KEEPS, asked_s=0, other_cut_off_s=UNREACHED_S), CUT_OFF, LEADS),  # only it is cut off
        (replace(KEEPS, asked_s=0, other_cut_off_s=1), CUT_OFF, COPIES),  # it may be about to hear again
        (replace(KEEPS, asked_s=0), CUT_OFF, COPIES),  # so is this one
        (KEEPS, OtherReplica(True, UNDECIDED, 9), LEADS),  # it was killed and is back, cold
        (
            replace(KEEPS, saw_other_lead=False),
            OtherReplica(True, UNDECIDED, 9),
            COPIES,
        ),  # both were started: it will lead
        (replace(KEEPS, saw_other_lead=False, position=9), OtherReplica(True, COPIES, 3), LEADS),
        (KEEPS, OtherReplica(True, DONE), DONE),
        (KEEPS, OtherReplica(False, DONE), LEADS),
        (ThisReplica(1, UNDECIDED), OtherReplica(True, LEADS), COPIES),
    ],
)
def test_taking_over(this: ThisReplica, other: OtherReplica, role: str) -> None:
    assert next_role(this, other)[0] == role


RUNS = ThisReplica(0, LEADS, up_s=60, saw_other_lead=True)


@pytest.mark.parametrize(
    ("this", "other", "role"),
    [
        (RUNS, OtherReplica(False), LEADS),
        (replace(RUNS, unfollowed_s=99), OtherReplica(False, LEADS, followed=True), LEADS),
        (replace(RUNS, unfollowed_s=99), OtherReplica(True, LEADS), LEADS),  # nobody reads the other, either
        (replace(RUNS, unfollowed_s=99), OtherReplica(True, COPIES), LEADS),
        (replace(RUNS, unfollowed_s=UNFOLLOWED_S), OtherReplica(True, LEADS, followed=True), COPIES),  # it was asleep
        (replace(RUNS, both_lead_s=99), OtherReplica(True, LEADS, followed=True), LEADS),
        (replace(RUNS, both_lead_s=BOTH_S, replica=1), OtherReplica(True, LEADS, followed=True), COPIES),
        (replace(RUNS, unfollowed_s=99, other_cut_off_s=9), CUT_OFF, LEADS),  # or both would turn about for ever
        (replace(RUNS, both_lead_s=BOTH_S, replica=1, other_cut_off_s=9), CUT_OFF, LEADS),
        (replace(RUNS, unfollowed_s=99), CUT_OFF, COPIES),  # both are cut off
    ],
)
def test_stepping_down(this: ThisReplica, other: OtherReplica, role: str) -> None:
    assert next_role(this, other)[0] == role


def test_durations_are_kept_between_looks() -> None:
    """Readers that ask now and then count as asking all the time; after a pause they begin anew. So do two leaders."""
    election, lead = PassiveElection(1, silence_s=1.0, up_at_s=10.0), OtherReplica(True, LEADS, followed=True)

    def observed(now_s: float, asked_at_s: float | None, other: OtherReplica = lead) -> ThisReplica:
        facts = {"position": 7, "saw_other_lead": True, "unfollowed_s": 0.5, "other_cut_off_s": 0.0}
        return election.observe(now_s, other, asked_at_s=asked_at_s, **facts)

    assert observed(12.0, None) == ThisReplica(1, UNDECIDED, 7, 2.0, 0.0, True, 0.5, 0.0, 0.0)
    assert 0 < observed(12.0, 12.0).asked_s < 0.01
    assert observed(14.5, 13.0).asked_s == pytest.approx(2.5, abs=0.01)
    assert observed(17.0, 13.0).asked_s == 0, "nobody has asked for 4 s"
    assert observed(18.0, 17.9).asked_s == pytest.approx(0.1)
    election.role = LEADS
    assert [observed(now_s, None).both_lead_s for now_s in (20.0, 23.0)] == [0.0, 3.0]
    assert observed(24.0, None, OtherReplica(False, LEADS)).both_lead_s == 0
    assert observed(25.0, None).both_lead_s == 0
