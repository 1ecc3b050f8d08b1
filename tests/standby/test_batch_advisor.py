"""The advisor keeps the limit and takes the cheapest batch that does: checked against a look at every batch."""

from __future__ import annotations

import pickle
import random

import pytest

from kigen.replicas.batch_advisor import Measured, NoBatch, advise

FIGURES = [
    Measured(1, 1.0, 0.1e6),
    Measured(10, 0.7, 0.3e6, 0.05e6),
    Measured(25, 0.4, 0.6e6),
    Measured(float("inf"), 0.0, 2e6),
]


def test_recovery_within() -> None:
    assert advise(FIGURES, recovery_within_us=1e6).batch == 25
    assert advise(FIGURES, recovery_within_us=0.41e6).batch == 10
    assert advise(FIGURES, recovery_within_us=0.39e6).batch == 1, "the spread counts"
    assert advise(FIGURES, recovery_within_us=5e6).batch == float("inf")


def test_overhead_below() -> None:
    assert advise(FIGURES, overhead_below=0.5).batch == 25
    assert advise(FIGURES, overhead_below=0.4).batch == float("inf"), "below, not at"
    assert advise(FIGURES, overhead_below=1.1).batch == 1


def test_no_batch_says_what_comes_nearest() -> None:
    with pytest.raises(NoBatch, match=r"within 0\.05 s; batch 1 needs 0\.1 s") as caught:
        advise(FIGURES, recovery_within_us=0.05e6)
    assert pickle.loads(pickle.dumps(caught.value.closest)) == FIGURES[0]
    with pytest.raises(NoBatch, match="below 0%; batch inf has 0%"):
        advise(FIGURES, overhead_below=0.0)


def test_one_limit_is_required() -> None:
    with pytest.raises(ValueError, match="got none"):
        advise(FIGURES)
    with pytest.raises(ValueError, match="got both"):
        advise(FIGURES, recovery_within_us=1.0, overhead_below=1.0)
    with pytest.raises(ValueError, match="kigen bench standby"):
        advise([], overhead_below=1.0)


@pytest.mark.parametrize("seed", range(30))
def test_against_every_batch(seed: int) -> None:
    draw = random.Random(seed)
    figures = [Measured(b, draw.random(), draw.uniform(0.1e6, 2e6), draw.uniform(0, 0.2e6)) for b in (1, 2, 10, 25, 50)]
    limit = draw.uniform(0.3e6, 2e6)
    fit = [one for one in figures if one.recovery_us + 2 * one.recovery_sd_us <= limit]
    if not fit:
        with pytest.raises(NoBatch):
            advise(figures, recovery_within_us=limit)
        return
    chosen = advise(figures, recovery_within_us=limit)
    assert chosen.recovery_us <= limit
    assert all(chosen.overhead <= one.overhead for one in fit)
