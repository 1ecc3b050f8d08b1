"""Standby in virtual time: the ends of the dial are what they are called, bytes are those of the records, and the output
of every trial is exact."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kigen_lab.reproduce.lazy_standby.experiments import Cell, run_cell
from kigen_lab.simulate.standby.model import TUPLE_BYTES, StandbyOutcome, StandbySetting, draw_trial
from kigen_lab.simulate.standby.trial import simulate_standby

from kigen.replicas.standby_kind import ACTIVE, LAZY, PASSIVE, UPSTREAM, StandbyKind, standby_kind

KINDS = [
    (ACTIVE, None, "none"),
    (LAZY, 7, "none"),
    (LAZY, 25, "zstd"),
    (UPSTREAM, None, "none"),
    (PASSIVE, None, "zlib"),
]
Kind = tuple[str, int | None, str]


def kind_of(word: str, batch: int | None = None, compress: str = "none", memory: bool = False) -> StandbyKind:
    return standby_kind(word, batch, compress, skips_trimmed=not memory, period_us=1e6)


BASE = StandbySetting(kind_of(LAZY, 25), kill_us=3e6)


def run(standby: StandbyKind) -> StandbyOutcome:
    return simulate_standby(replace(BASE, standby=standby))


def test_active_is_batch_one_and_upstream_is_batch_infinity() -> None:
    assert run(kind_of(ACTIVE)) == run(kind_of(LAZY, 1))
    assert run(kind_of(UPSTREAM)) == run(kind_of(LAZY, 10**9))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("window_us", [0.0, 300_000.0])
@pytest.mark.parametrize("kind", KINDS, ids=lambda one: f"{one[0]} {one[1]}")
def test_every_trial_is_exact(kind: Kind, window_us: float, seed: int) -> None:
    if kind[0] == UPSTREAM and window_us:
        pytest.skip("refused for a node with memory")
    setting = replace(BASE, standby=kind_of(*kind, memory=window_us > 0), window_us=window_us, seed=seed)
    outcome = simulate_standby(setting)
    assert outcome.exact
    assert outcome.recovery_us >= outcome.reconnection_us > 0
    assert BASE.silence_us <= outcome.detection_us <= BASE.silence_us + BASE.ping_us


@pytest.mark.parametrize("seed", [4, 5])
def test_bytes_are_those_of_the_records(seed: int) -> None:
    setting = replace(BASE, standby=kind_of(ACTIVE), seed=seed)
    drawn, outcome = draw_trial(setting, setting.kill_us + 1e6), simulate_standby(setting)
    assert len(drawn.records) == TUPLE_BYTES * len(drawn.times_us)
    assert outcome.backup_bytes == TUPLE_BYTES * outcome.batched == TUPLE_BYTES * outcome.tuples


def test_overhead_falls_and_recovery_grows_between_the_ends() -> None:
    kinds = [kind_of(ACTIVE), kind_of(LAZY, 10), kind_of(LAZY, 40), kind_of(UPSTREAM)]
    points = [run_cell(Cell("selection", "none", "", replace(BASE, standby=one)), 6) for one in kinds]
    overheads, times = ([point[what]["mean"] for point in points] for what in ("overhead", "recovery_us"))
    assert overheads == sorted(overheads, reverse=True)
    assert overheads[0] > overheads[1] > overheads[2] > overheads[3] == 0
    assert times == sorted(times)
    assert times[0] < times[-1]


@pytest.mark.parametrize("batch", [1, 20])
def test_a_node_with_memory_needs_every_tuple(batch: int) -> None:
    """All tuples go to the follower, except for the last batch, which is not full; U keeps them until both have them."""
    outcome = simulate_standby(replace(BASE, standby=kind_of(LAZY, batch, memory=True), window_us=300_000.0))
    assert outcome.tuples - batch < outcome.batched <= outcome.tuples
    assert outcome.kept_most >= batch


def test_a_codec_changes_bytes_and_not_recovery() -> None:
    """A batch of one tuple is sent as it is: it would grow."""
    plain, packed = (run(kind_of(LAZY, 25, codec)) for codec in ("none", "zlib"))
    assert 0.45 <= packed.overhead / plain.overhead <= 0.6
    assert packed.recovery_us == pytest.approx(plain.recovery_us, rel=0.02)
    assert run(kind_of(LAZY, 1, "zlib")).overhead == run(kind_of(LAZY, 1)).overhead


def test_copies_are_made_in_time_and_trim_the_input() -> None:
    outcome = run(kind_of(PASSIVE))
    assert outcome.batched == outcome.secondary_work == 0
    assert outcome.backup_bytes > 0
    before_kill = BASE.rate * 1.0  # a period
    assert before_kill / 2 < outcome.kept_most < BASE.rate * 5
