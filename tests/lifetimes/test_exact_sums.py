"""Exact sums against fractions: adding values and subtracting them again leaves zero, whatever the magnitudes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kigen.lifetimes.aggregates.exact_sums import limbs_of_doubles, limbs_of_integers, to_doubles, to_integers

FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


def total(values: list[float], signs: list[int]) -> float:
    limbs = limbs_of_doubles(np.array(values))
    summed = {b: np.array([int((part * np.array(signs)).sum())]) for b, part in limbs.items()}
    return float(to_doubles(summed, 1)[0])


@settings(max_examples=300, deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=20), st.lists(FINITE, max_size=20))
def test_sum_is_exact_after_others_came_and_went(kept: list[float], gone: list[float]) -> None:
    values, signs = kept + gone + gone, [1] * (len(kept) + len(gone)) + [-1] * len(gone)
    exact = sum((Fraction(v) for v in kept), Fraction(0))
    got = total(values, signs)
    assert got == float(exact)


def test_special_values_leave_with_their_tuples() -> None:
    assert math.isinf(total([math.inf, 1.0], [1, 1]))
    assert total([math.inf, 1.0, math.inf], [1, 1, -1]) == 1.0
    assert math.isnan(total([math.inf, -math.inf], [1, 1]))
    assert math.isnan(total([math.nan, 3.0], [1, 1]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_integers(values: list[int]) -> None:
    limbs = {b: np.array([int(part.sum())]) for b, part in limbs_of_integers(np.array(values, dtype=np.int64)).items()}
    got, overflow = to_integers(limbs, 1)
    exact = sum(values)
    assert bool(overflow[0]) == (not -(2**63) <= exact < 2**63)
    assert overflow[0] or int(got[0]) == exact
    assert float(to_doubles(limbs, 1)[0]) == float(exact)


def test_sums_are_the_nearest_doubles() -> None:
    rng = np.random.default_rng(1)
    for _ in range(3_000):
        values = rng.standard_normal(8) * 10.0 ** rng.integers(-9, 9, 8)
        assert total(values.tolist(), [1] * 8) == math.fsum(values.tolist())
    tiny = 5e-324
    for values in (
        [1.0, 2**-53],
        [1.0, 2**-53, tiny],
        [1.0 + 2**-52, 2**-53],
        [tiny, tiny],
        [-1.0, -(2**-53), -tiny],
        [1e308, 7e307],
    ):
        assert total(values, [1] * len(values)) == math.fsum(values)
