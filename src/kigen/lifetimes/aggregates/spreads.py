"""STDDEV and VAR from exact sums: nothing of what expired is left in them, and they are flat in the window's size.

The variance is n * sum(x * x) - sum(x)**2, divided by n * n (population) or n * (n - 1) (sample). Both sums are exact;
the difference cancels most of their digits, so it is taken with about 100 bits: each sum and product is a double and
the rest that the double left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kigen.lifetimes.aggregates.exact_sums import POS_INF, Doubles, Limbs, limbs_of_doubles, to_doubles
from kigen.lifetimes.blocks import Ints, Mask
from kigen.plan.logical import AggFunc

SPREADS = (AggFunc.STDDEV_SAMP, AggFunc.STDDEV_POP, AggFunc.VAR_SAMP, AggFunc.VAR_POP)
_SAMPLES = (AggFunc.STDDEV_SAMP, AggFunc.VAR_SAMP)
_ROOTS = (AggFunc.STDDEV_SAMP, AggFunc.STDDEV_POP)
_SPLIT = 134217729.0  # 2**27 + 1
_NOISE = 2.0**-96  # what is left of equal values


def squares(values: np.ndarray[Any, Any]) -> Limbs:
    """Returns the exact squares of doubles."""
    doubles = values.astype(np.float64)
    square, rest = _product(doubles, doubles)
    out = limbs_of_doubles(square)
    for grid, limb in limbs_of_doubles(rest).items():
        out[grid] = out[grid] + limb if grid in out else limb
    return out


def spread_of(func: AggFunc, counts: Ints, sums: Limbs, square_sums: Limbs) -> tuple[Doubles, Mask]:
    """Returns the standard deviations or variances, and where they are NULL."""
    sample = func in _SAMPLES
    null = counts < (2 if sample else 1)
    n = np.where(null, 2, counts).astype(np.float64)
    total, total_rest = _pair(sums, len(counts))
    square, square_rest = _pair(square_sums, len(counts))
    with np.errstate(invalid="ignore", over="ignore"):
        left, left_rest = _product(n, square)
        right, right_rest = _product(total, total)
        left_rest = left_rest + n * square_rest
        right_rest = right_rest + 2.0 * total * total_rest
        numerator = (left - right) + (left_rest - right_rest)
        numerator = np.where(numerator <= left * _NOISE, 0.0, numerator)
        variance = numerator / (n * (n - 1.0) if sample else n * n)
    return (np.sqrt(variance) if func in _ROOTS else variance), null


def _pair(limbs: Limbs, size: int) -> tuple[Doubles, Doubles]:
    """Returns exact sums as a double and the nearest double to the rest."""
    value = to_doubles(limbs, size)
    rest = {grid: limb for grid, limb in limbs.items() if grid < POS_INF}
    for grid, limb in limbs_of_doubles(np.where(np.isfinite(value), value, 0.0)).items():
        rest[grid] = rest[grid] - limb if grid in rest else -limb
    return value, np.where(np.isfinite(value), to_doubles(rest, size), 0.0)


def _product(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Returns the product as a double and the rest that it leaves out (Dekker)."""
    with np.errstate(invalid="ignore", over="ignore"):
        product = a * b
        a_high, b_high = _high(a), _high(b)
        a_low, b_low = a - a_high, b - b_high
        rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, np.where(np.isfinite(rest), rest, 0.0)


def _high(value: Doubles) -> Doubles:
    scaled = _SPLIT * value
    return scaled - (scaled - value)
