"""Tests what policies over slices drop in overload, in virtual time, in rounds that cost what they cost on Spark."""

from __future__ import annotations

import pytest
from kigen_lab.simulate.shared_joins.round_simulation import RoundSetting, simulate_rounds

EQUAL = (5_000.0,) * 4
BY_WINDOW = tuple(20_000.0 * length / 60 for length in (1, 1, 18, 40))


def load(costs_us: tuple[float, ...], seed: int, buffer: int, seconds: float) -> RoundSetting:
    return RoundSetting(costs_us=costs_us, seed=seed, buffer=buffer, seconds=seconds)


@pytest.mark.parametrize("seed", range(2))
def test_with_equal_costs_mqt_drops_little_more_than_fifo_and_admandf_no_more(seed: int) -> None:
    """Any order answers a query per 5 ms. What a round costs beside its tuples, and what waits at the end, differ."""
    setting = load(EQUAL, seed, 40, 120.0)
    dropped = {name: simulate_rounds(setting, name) for name in ("fifo", "mqt", "admandf")}
    assert dropped["mqt"].dropped[:2] == [0, 0]
    fifo = dropped["fifo"].dropped_in_all
    assert dropped["mqt"].dropped_in_all < 1.09 * fifo
    assert dropped["admandf"].dropped_in_all < 1.05 * fifo


@pytest.mark.parametrize("seed", [2, 4])
def test_with_costs_by_window_mqt_drops_half_of_fifo_and_admandf_stays_with_it(seed: int) -> None:
    setting = load(BY_WINDOW, seed, 200, 40.0)
    fifo, mqt, admandf = (simulate_rounds(setting, name) for name in ("fifo", "mqt", "admandf"))
    assert mqt.dropped[:3] == [0, 0, 0]
    assert mqt.dropped_in_all < 0.6 * fifo.dropped_in_all
    assert admandf.dropped_in_all < 1.05 * mqt.dropped_in_all
