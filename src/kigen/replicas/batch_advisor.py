"""Chooses a batch size from measured figures: the one that keeps a limit and costs least otherwise.

`recovery_within`: of the batches whose recovery (mean plus `sigmas` standard deviations) is within the limit, it
chooses the one with the least overhead. `overhead_below`: of those whose overhead is below the limit, it chooses the
one with the quickest recovery. It advises only batches that were measured, and does not interpolate between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """Figures of one batch size. Active standby is batch 1; upstream backup is batch infinity."""

    batch: float
    overhead: float  # backup bytes / primary bytes
    recovery_us: float  # mean
    recovery_sd_us: float = 0.0


@dataclass(frozen=True)
class Advice:
    batch: float
    overhead: float
    recovery_us: float  # to be expected: mean and spread
    why: str


class NoBatch(ValueError):
    """No measured batch keeps the limit. `closest` comes nearest to it."""

    def __init__(self, message: str, closest: Measured) -> None:
        super().__init__(message, closest)
        self.closest = closest

    def __str__(self) -> str:
        return str(self.args[0])


def advise(
    figures: Sequence[Measured],
    *,
    recovery_within_us: float | None = None,
    overhead_below: float | None = None,
    sigmas: float = 2.0,
) -> Advice:
    """Returns the batch for one limit; of equally good ones, the smallest."""
    if (recovery_within_us is None) == (overhead_below is None):
        raise ValueError(
            "one limit is required, recovery_within or overhead_below; got "
            + ("none" if overhead_below is None else "both")
        )
    if not figures:
        raise ValueError(
            "figures measured over several batches are required; got none: run `kigen bench standby` first"
        )

    def expected_us(one: Measured) -> float:
        return one.recovery_us + sigmas * one.recovery_sd_us

    if recovery_within_us is not None:
        fit = [one for one in figures if expected_us(one) <= recovery_within_us]
        closest = min(figures, key=expected_us)
        problem = (
            f"no batch recovers within {recovery_within_us / 1e6:g} s; batch {closest.batch:g} needs "
            f"{expected_us(closest) / 1e6:.3g} s"
        )
        why = f"least overhead of {len(fit)} batches that recover within {recovery_within_us / 1e6:g} s"
        best = min(fit, key=lambda one: (one.overhead, one.batch), default=None)
    else:
        assert overhead_below is not None
        fit = [one for one in figures if one.overhead < overhead_below]
        closest = min(figures, key=lambda one: one.overhead)
        problem = (
            f"no batch has an overhead below {overhead_below:.0%}; batch {closest.batch:g} has {closest.overhead:.0%}"
        )
        why = f"quickest recovery of {len(fit)} batches with an overhead below {overhead_below:.0%}"
        best = min(fit, key=lambda one: (expected_us(one), one.batch), default=None)
    if best is None:
        raise NoBatch(problem, closest)
    return Advice(best.batch, best.overhead, expected_us(best), why)
