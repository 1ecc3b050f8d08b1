"""Checks the paper's order of policies, and the bounds of `pack`, on reduced settings with fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest
from kigen_lab.simulate import Setting, draw, run_policy

NAMES = ("taat", "bts", "ats", "ats1", "ideal", "pack")


def sdmr(rate: float, queries: int, selectivity: float | None) -> dict[str, float]:
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    for seed in (20, 21, 22):
        workload = draw(
            Setting(
                rate=rate, queries=queries, tuples=300 if queries == 100 else 100, selectivity=selectivity, seed=seed
            )
        )
        for name in NAMES:
            found[name].append(run_policy(name, workload, seed=seed).sdmr)
    return {name: float(np.mean(values)) for name, values in found.items()}


CASES = [(0.3, 100, 0.5), (0.4, 100, None), (0.8, 100, 0.5), (0.4, 300, None), (1.0, 300, 0.5)]


@pytest.mark.parametrize(("rate", "queries", "selectivity"), CASES)
def test_order_and_pack_near_ideal_and_never_above_ats1(rate: float, queries: int, selectivity: float | None) -> None:
    found = sdmr(rate, queries, selectivity)
    assert found["taat"] >= found["bts"] >= found["ats"] >= found["ats1"] >= found["ideal"]
    if found["taat"] >= 0.05:
        assert found["taat"] > found["bts"] > found["ats"] > found["ats1"] > found["ideal"]
    assert found["pack"] <= found["ideal"] + 0.02
    assert found["pack"] <= found["ats1"]


def test_published_at_lambda_04() -> None:
    found = [draw(Setting(rate=0.4, tuples=500, selectivity=None, seed=seed)) for seed in (0, 1, 2)]
    taat, bts, ats = (
        np.mean([run_policy(name, workload).sdmr for workload in found]) for name in ("taat", "bts", "ats")
    )
    assert taat == pytest.approx(0.40, abs=0.06)
    assert bts == pytest.approx(0.10, abs=0.06)
    assert ats == pytest.approx(0.05, abs=0.05)
