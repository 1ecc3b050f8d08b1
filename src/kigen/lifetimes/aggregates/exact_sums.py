"""Exact sums of doubles and integers: a sum does not depend on the order of arrival, on batches, or on what has
expired.

A finite double is an integer times a power of two. It is cut into three limbs of 32 bits on an absolute grid: limb b
counts units of 2**(32*b). Limbs are added and subtracted as int64, which is exact for up to 2**30 terms. Infinities and
NaN are counted apart. An integer has two limbs. Cost: one pass per limb; ordinary data touches 3 or 4 limbs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from kigen.lifetimes.blocks import Ints
from kigen.lifetimes.keys.slot_arrays import grown

Doubles = np.ndarray[Any, np.dtype[np.float64]]
Words = np.ndarray[Any, np.dtype[np.uint64]]
Limbs = dict[int, Ints]  # grid position -> units
_LOW = np.int64(0xFFFFFFFF)
_SMALL = 1 << 31
_FEW = 32  # sums: below it, Python's integers are quicker than array operations
_NORMAL = -31  # every multiple of 2**(32 * -31) is 0 or a normal double
POS_INF, NEG_INF, NAN = 1000, 1001, 1002  # grid positions that count special values


def limbs_of_doubles(values: Doubles) -> Limbs:
    out: Limbs = {}
    finite = np.isfinite(values)
    if not bool(finite.all()):
        for code, mask in ((POS_INF, values == np.inf), (NEG_INF, values == -np.inf), (NAN, np.isnan(values))):
            if bool(mask.any()):
                out[code] = mask.astype(np.int64)
        values = np.where(finite, values, 0.0)
    mantissa, exponent = np.frexp(values)
    integer = (mantissa * 2.0**53).astype(np.int64)
    power = exponent.astype(np.int64) - 53
    grid = power >> 5
    shift = power & 31
    low = (integer & _LOW) << shift
    middle = ((integer >> 32) << shift) + (low >> 32)
    parts = (low & _LOW, middle & _LOW, middle >> 32)
    grid[integer == 0] = -2
    for b in np.unique(grid).tolist():
        here = grid == b
        everywhere = bool(here.all())
        for k, part in enumerate(parts):
            share = part if everywhere else np.where(here, part, 0)
            out[b + k] = out[b + k] + share if b + k in out else share
    return out


def limbs_of_integers(values: Ints) -> Limbs:
    """Cuts integers into limbs. Small numbers are not cut: 2**30 of them cannot exceed int64, and a limb may hold more
    than 32 bits."""
    if len(values) and int(values.min()) > -_SMALL and int(values.max()) < _SMALL:
        return {0: values}
    return {0: values & _LOW, 1: values >> 32}


def double_parts(value: float) -> list[tuple[int, int]]:
    """Cuts one double as `limbs_of_doubles` does: grid positions and units. OverflowError if it is not finite."""
    if not math.isfinite(value):
        raise OverflowError
    mantissa, exponent = math.frexp(value)
    integer, power = int(mantissa * 2.0**53), exponent - 53
    if not integer:
        return []
    grid, shift = power >> 5, power & 31
    low = (integer & 0xFFFFFFFF) << shift
    middle = ((integer >> 32) << shift) + (low >> 32)
    return [(grid, low & 0xFFFFFFFF), (grid + 1, middle & 0xFFFFFFFF), (grid + 2, middle >> 32)]


def integer_parts(value: int) -> list[tuple[int, int]]:
    """Cuts one integer as `limbs_of_integers` does."""
    return [(0, value)] if -_SMALL < value < _SMALL else [(0, value & 0xFFFFFFFF), (1, value >> 32)]


def few_limbs(limbs: Limbs, grids: Iterable[int], capacity: int) -> Limbs:
    """Returns the limbs and those of more grid positions, each of length `capacity`. Raises OverflowError if sums at
    these positions may not be normal doubles."""
    out = {b: grown(limb, capacity) for b, limb in limbs.items()}
    for b in grids:
        if b not in out:
            out[b] = np.zeros(capacity, dtype=np.int64)
    if out and (max(out) >= POS_INF or min(out) < _NORMAL):
        raise OverflowError
    return out


def normalised(limbs: Limbs) -> Limbs:
    """Carries upwards, so that every limb except the highest is in [0, 2**32). Each value then has one form."""
    places = sorted(b for b in limbs if b < POS_INF)
    if not places:
        return {}
    out: Limbs = {}
    carry: Ints | None = None
    for b in range(places[0], places[-1] + 3):
        total = limbs.get(b)
        if carry is not None:
            total = carry if total is None else total + carry
        assert total is not None
        if b < places[-1] + 2:
            out[b] = total & _LOW
            carry = total >> 32
        else:
            out[b] = total
    return out


def to_doubles(limbs: Limbs, size: int) -> Doubles:
    """Returns the sums as doubles, each the nearest to the exact sum (ties to even)."""
    if limbs.keys() == {0}:
        return limbs[0].astype(np.float64)
    few = _few_doubles(limbs, size) if size <= _FEW else None
    if few is not None:
        return few
    exact = normalised(limbs)
    if not exact:
        return _with_specials(np.zeros(size, dtype=np.float64), limbs)
    negative = exact[max(exact)] < 0
    if bool(negative.any()):  # the rounding works on magnitudes
        exact = normalised({b: np.where(negative, -v, v) for b, v in exact.items()})
    total = _nearest(exact, size)
    return _with_specials(np.where(negative, -total, total), limbs)


def _few_doubles(limbs: Limbs, size: int) -> Doubles | None:
    """Adds few sums up with Python's integers, whose conversion to a double is to the nearest, ties to even. None where
    that may not hold: special values, results that are subnormal or too large."""
    lowest = min(limbs, default=POS_INF)
    if max(limbs, default=POS_INF) >= POS_INF or lowest < _NORMAL:
        return None
    columns = [(limb.tolist(), 32 * (b - lowest)) for b, limb in limbs.items()]
    try:
        totals = [sum(column[i] << shift for column, shift in columns) for i in range(size)]
        return np.array([math.ldexp(float(total), 32 * lowest) for total in totals], dtype=np.float64)
    except OverflowError:
        return None


def _nearest(exact: Limbs, size: int) -> Doubles:
    """Rounds sums that are not negative. Their first 64 bits, and whether any bit follows, decide how the first 53 are
    rounded."""
    top = np.full(size, min(exact), dtype=np.int64)  # grid position of the highest limb that is not 0
    first, second, third = (np.zeros(size, dtype=np.uint64) for _ in range(3))
    more = np.zeros(size, dtype=np.bool_)
    found = np.zeros(size, dtype=np.bool_)
    for b in sorted(exact, reverse=True):
        limb = exact[b].view(np.uint64)
        some = limb != 0
        here = some & ~found
        top[here] = b
        found |= some
        depth = top - b
        first = np.where(here, limb, first)
        second = np.where(found & (depth == 1), limb, second)
        third = np.where(found & (depth == 2), limb, third)
        more |= some & (depth > 2)
    high = (first << np.uint64(32)) | second
    # Leading zeros; the first limb has up to 32 bits.
    shift = (63 - (np.frexp(first.astype(np.float64))[1] + 31)).astype(np.uint64)
    shift[~found] = 0
    bits = (high << shift) | (third >> (np.uint64(32) - shift))
    more |= (third & ((np.uint64(1) << (np.uint64(32) - shift)) - np.uint64(1))) != 0
    kept, rest = bits >> np.uint64(11), bits & np.uint64(0x7FF)
    up = (rest > 0x400) | ((rest == 0x400) & (more | ((kept & np.uint64(1)) != 0)))
    exponent = 32 * (top - 1) - shift.astype(np.int64) + 11
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp((kept + up).astype(np.float64), exponent))


def _with_specials(total: Doubles, limbs: Limbs) -> Doubles:
    if not any(code in limbs for code in (POS_INF, NEG_INF, NAN)):
        return total
    none = np.zeros(len(total), dtype=np.int64)
    plus, minus, nan = (limbs.get(code, none) > 0 for code in (POS_INF, NEG_INF, NAN))
    total = np.where(plus, np.inf, total)
    total = np.where(minus, -np.inf, total)
    return np.where(nan | (plus & minus), np.nan, total)


def limbs_of_decimals(low: Words, high: Ints) -> Limbs:
    """Cuts 128-bit integers, given as their lower and upper words."""
    return {
        0: (low & np.uint64(_LOW)).view(np.int64),
        1: (low >> np.uint64(32)).view(np.int64),
        2: high & _LOW,
        3: high >> 32,
    }


def to_words(limbs: Limbs, size: int) -> tuple[Words, Ints, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Returns the sums as lower and upper words of 128-bit integers, and where they do not fit."""
    exact = normalised(limbs)
    none = np.zeros(size, dtype=np.int64)
    a, b, c = (exact.get(place, none) for place in range(3))
    top = sum((exact[place] << 32 * (place - 3) for place in exact if place >= 3), none)
    low = a.view(np.uint64) | (b.view(np.uint64) << np.uint64(32))
    fits = (top >= -(2**31)) & (top < 2**31)
    return low, c | (np.where(fits, top, 0) << 32), ~fits


def to_integers(limbs: Limbs, size: int) -> tuple[Ints, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Returns the sums as int64, and where they do not fit."""
    if not limbs:
        return np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.bool_)
    low = limbs[0]
    if 1 not in limbs:
        return low, np.zeros(size, dtype=np.bool_)
    high = limbs[1] + (low >> 32)
    fits = (high >= -(2**31)) & (high < 2**31)
    return (np.where(fits, high, 0) << 32) + (low & _LOW), ~fits
