"""Joins by computed keys, of nested aggregates, and ranked self-joins agree with DuckDB, however input and steps are
cut."""

from __future__ import annotations

from random import Random

import pytest
from lifetimes.bids import named, random_bids, random_side, run_bids, sorted_lines, windowed, wrong

from kigen.lifetimes.joins import join_side, piece, stretches

MODES = ("dt", "nt")
NAMES = ("computed", "nested", "ranked")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_right_in_any_blocks(seed: int, name: str, mode: str) -> None:
    rng = Random(f"{seed} {name} {mode}")
    range_us = rng.choice((None, 7_000_000, 40_000_000))
    query = windowed(named(name), range_us)
    bids, side = random_bids(rng, rng.choice((1, 30, 80))), random_side(rng, 3) if name == "computed" else None
    whole = run_bids(query, mode, bids, side)
    assert wrong(query, whole, bids, side, rng, range_us) == []
    assert sorted_lines(run_bids(query, mode, bids, side, rng)) == sorted_lines(whole)


@pytest.mark.parametrize("most", [1, 20])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(2))
def test_stretches_give_the_same_lines(
    seed: int, name: str, mode: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(f"{seed} {name} {mode} {most}")
    range_us = rng.choice((None, 15_000_000))
    query = windowed(named(name), range_us)
    bids, side = random_bids(rng, 30 if most == 1 else 60), random_side(rng, 3) if name == "computed" else None
    whole = run_bids(query, mode, bids, side)
    monkeypatch.setattr(join_side, "MOST_PAIRS", most)
    if rng.random() < 0.5:  # even few candidates are searched, and estimates may be small
        monkeypatch.setattr(piece, "_FEW", 0)
        monkeypatch.setattr(stretches, "_FEWEST", 1)
    for cut in (run_bids(query, mode, bids, side), run_bids(query, mode, bids, side, rng)):
        assert wrong(query, cut, bids, side, rng, range_us) == []
        assert sorted_lines(cut) == sorted_lines(whole)


@pytest.mark.parametrize("name", NAMES)
def test_both_methods_give_the_same_lines(name: str) -> None:
    rng = Random(name)
    query = windowed(named(name), 20_000_000)
    bids, side = random_bids(rng, 80), random_side(rng, 3) if name == "computed" else None
    dt, nt = (sorted_lines(run_bids(query, mode, bids, side, rng)) for mode in MODES)
    assert dt == nt
