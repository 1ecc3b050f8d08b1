"""Draws arrival times in virtual time: Poisson, Zipf or bursty gaps with the same mean rate. One vectorised draw per
stream.
"""

from __future__ import annotations

import numpy as np

from kigen.schedule.policy_interface import Floats

KINDS = ("poisson", "zipf", "bursty")
ZIPF_EXPONENT, ZIPF_LARGEST = 1.5, 1000
BURST, EVERY_US, LASTING_US = 4.0, 10e6, 2e6


def arrival_times_us(kind: str, rng: np.random.Generator, count: int, gap_us: float) -> Floats:
    """Returns `count` arrivals with a mean gap of `gap_us`, from time 0."""
    if kind == "poisson":
        return np.cumsum(rng.exponential(gap_us, count))
    if kind == "zipf":
        return _zipf(rng, count, gap_us)
    if kind == "bursty":
        return _bursty(rng, count, gap_us)
    raise ValueError(f"no arrivals '{kind}': write one of {', '.join(KINDS)}")


def _zipf(rng: np.random.Generator, count: int, gap_us: float) -> Floats:
    """Draws gaps of 1, 2, 3 ... units with probabilities that fall as a power.

    Most tuples arrive in clusters, some after a long silence.
    """
    lengths = np.arange(1, ZIPF_LARGEST + 1, dtype=np.float64)
    chances = lengths**-ZIPF_EXPONENT
    chances /= chances.sum()
    unit_us = gap_us / float(lengths @ chances)
    return np.cumsum(rng.choice(lengths, count, p=chances) * unit_us * rng.uniform(0.5, 1.5, count))


def _bursty(rng: np.random.Generator, count: int, gap_us: float) -> Floats:
    """Draws a Poisson stream at `BURST` times the mean rate for 2 s in every 10 s, and slower in between.

    The phase is the stream's own.
    """
    even = np.cumsum(rng.exponential(gap_us, count)) + rng.uniform(0, EVERY_US)
    quiet = (EVERY_US - LASTING_US * BURST) / (EVERY_US - LASTING_US)
    if quiet < 0:
        raise ValueError("bursts hold more than all tuples")
    periods, rest = np.divmod(even, EVERY_US)
    warped = np.interp(rest, [0.0, LASTING_US * BURST, EVERY_US], [0.0, LASTING_US, EVERY_US])
    times = periods * EVERY_US + warped
    return np.asarray(times - times[0], np.float64)
