"""Standby in virtual time: the ends of the dial are what they are called, bytes are the records', every trial's output
is exact."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kigen_lab.reproduce.lazy_standby.experiments import Cell, run_cell
from kigen_lab.simulate.standby.machine.topology import Standby
from kigen_lab.simulate.standby.model import TUPLE_BYTES, StandbyOutcome, StandbySetting, draw_trial
from kigen_lab.simulate.standby.trial import simulate_standby

BASE = StandbySetting(Standby(), kill_us=3e6)
KINDS = [Standby("active"), Standby("lazy", 7), Standby("lazy", 25, "zstd"), Standby("upstream"), Standby("passive")]


def run(standby: Standby) -> StandbyOutcome:
    return simulate_standby(replace(BASE, standby=standby))


def test_active_is_batch_one_and_upstream_is_batch_infinity() -> None:
    assert run(Standby("active")) == run(Standby("lazy", 1))
    assert run(Standby("upstream")) == run(Standby("lazy", 1e9))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("window_us", [0.0, 300_000.0])
@pytest.mark.parametrize("standby", KINDS, ids=lambda one: f"{one.mode} {one.batch:g}")
def test_every_trial_is_exact(standby: Standby, window_us: float, seed: int) -> None:
    outcome = simulate_standby(replace(BASE, standby=standby, window_us=window_us, seed=seed))
    assert outcome.exact
    assert outcome.recovery_us >= outcome.reconnection_us > 0
    beats = BASE.beats
    assert beats.silence_us - beats.every_us <= outcome.detection_us <= beats.silence_us + 2 * beats.answer_us + 10_000


@pytest.mark.parametrize("seed", [4, 5])
def test_bytes_are_those_of_the_records(seed: int) -> None:
    setting = replace(BASE, standby=Standby("active", compress="none"), seed=seed)
    drawn, outcome = draw_trial(setting, setting.kill_us + 1e6), simulate_standby(setting)
    assert len(drawn.records) == TUPLE_BYTES * len(drawn.times_us)
    assert outcome.backup_bytes == TUPLE_BYTES * outcome.batched == TUPLE_BYTES * outcome.tuples


def test_overhead_falls_and_recovery_grows_between_the_ends() -> None:
    kinds = [
        Standby("active", compress="none"),
        Standby("lazy", 10, "none"),
        Standby("lazy", 40, "none"),
        Standby("upstream"),
    ]
    points = [run_cell(Cell("selection", "none", one.mode, replace(BASE, standby=one)), 6) for one in kinds]
    overheads, times = ([point[what]["mean"] for point in points] for what in ("overhead", "recovery_us"))
    assert overheads == sorted(overheads, reverse=True)
    assert overheads[0] > overheads[1] > overheads[2] > overheads[3] == 0
    assert times == sorted(times)
    assert times[0] < times[-1]


def test_live_tuples_are_not_trimmed() -> None:
    """A window of some 30 tuples: batches of 20 fill with live ones, and all go to the secondary but for the last part
    of one."""
    outcome = simulate_standby(replace(BASE, standby=Standby("lazy", 20, "none"), window_us=300_000.0))
    assert outcome.tuples - 60 <= outcome.batched <= outcome.tuples
    assert outcome.kept_most > 30
