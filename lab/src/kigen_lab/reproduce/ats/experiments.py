"""Defines the experiments of the paper on deadlines and adaptive batches: figures 4 to 13, as grids
of simulated runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kigen.schedule import SDMR_READINGS, PolicySettings
from kigen_lab.reproduce.experiment import Job, Variant
from kigen_lab.simulate import Setting

POLICIES = (
    Variant("TAAT", "taat"),
    Variant("BTS", "bts"),
    Variant("BTS1", "bts1"),
    Variant("ATS", "ats"),
    Variant("ATS1", "ats1"),
    Variant("pack", "pack"),
    Variant("Ideal", "ideal"),
)
PLAIN = tuple(v for v in POLICIES if not v.label.endswith("1"))
LAMBDAS = tuple(round(0.1 * n, 1) for n in range(3, 11))  # below that, no policy misses anything
QUICK_LAMBDAS = (0.3, 0.4, 0.6, 1.0)
RANDOM = None


@dataclass(frozen=True)
class Panel:
    """One picture: its jobs, and what is drawn against what."""

    title: str
    jobs: tuple[Job, ...]
    across: str = "lambda"
    metric: str = "sdmr"


def _sweep(
    title: str, quick: bool, base: Setting, metric: str = "sdmr", variants: tuple[Variant, ...] = POLICIES
) -> Panel:
    rates = QUICK_LAMBDAS if quick else LAMBDAS
    jobs = tuple(Job(rate, replace(base, rate=rate), variants) for rate in rates)
    return Panel(title, jobs, metric=metric)


def _base(quick: bool, queries: int = 100, **changes: object) -> Setting:
    tuples = (
        (150 if quick else 500) if queries <= 100 else (100 if quick else 300)
    )  # fewer than the paper's 10,000, but several seeds
    return replace(Setting(queries=queries, tuples=tuples), **changes)  # type: ignore[arg-type]  # fields of Setting, each of its own type


def batch(quick: bool) -> list[Panel]:
    ks = (1, 2, 5) if quick else (1, 2, 3, 4, 5, 6, 8, 10)
    slots = (0.01, 0.02, 0.04, 0.05, 0.1)
    jobs = [
        Job(
            k,
            _base(quick, rate=0.5),
            tuple(Variant(f"phi {s} s", "bts", PolicySettings(phi_us=s * 1e6, k=k)) for s in slots),
        )
        for k in ks
    ]
    return [Panel("Figure 4: BTS by k and phi, lambda 0.5", tuple(jobs), across="k")]


def _gain(what: str, value: float, reading: str) -> PolicySettings:
    return PolicySettings(reading=reading, kp=value) if what == "kp" else PolicySettings(reading=reading, ki=value)


def _controller(quick: bool, what: str, values: tuple[float, ...]) -> list[Panel]:
    panels = []
    for rate in (0.4,) if quick else (0.4, 0.8):
        jobs = []
        for value in values:
            variants = tuple(
                Variant(f"{policy.upper()}, {reading}", policy, _gain(what, value, reading))
                for reading in SDMR_READINGS
                for policy in ("ats", "ats1")
            )
            jobs.append(Job(value, _base(quick, rate=rate, selectivity=RANDOM), variants))
        number = 5 if what == "kp" else 6
        panels.append(
            Panel(
                f"Figure {number}: lambda {rate}, by reading of the controller", tuple(jobs), across=what.capitalize()
            )
        )
    return panels


def kp(quick: bool) -> list[Panel]:
    return _controller(quick, "kp", (0.5, 1.0, 2.5, 10.0, 20.0))


def ki(quick: bool) -> list[Panel]:
    return _controller(quick, "ki", (1.0, 5.0, 10.0, 15.0, 20.0))


def overhead(quick: bool) -> list[Panel]:
    return [
        _sweep(
            "Figure 7: scheduling overhead in all, selectivity 1",
            quick,
            _base(quick, selectivity=1.0),
            "overhead_us",
            PLAIN,
        )
    ]


def sdmr_fixed(quick: bool) -> list[Panel]:
    return [_sweep("Figure 8: 100 queries, selectivity 0.5", quick, _base(quick))]


def sdmr_random(quick: bool) -> list[Panel]:
    return [_sweep("Figure 10: 100 queries, random selectivity", quick, _base(quick, selectivity=RANDOM))]


def cpu(quick: bool) -> list[Panel]:
    return [
        _sweep("Figure 9: CPU, selectivity 0.5", quick, _base(quick), "cpu", PLAIN),
        _sweep("Figure 11: CPU, random selectivity", quick, _base(quick, selectivity=RANDOM), "cpu", PLAIN),
    ]


def sdmr_300(quick: bool) -> list[Panel]:
    return [
        _sweep("Figure 12: 300 queries, selectivity 0.5", quick, _base(quick, 300)),
        _sweep("Figure 13: 300 queries, random selectivity", quick, _base(quick, 300, selectivity=RANDOM)),
    ]


def zipf(quick: bool) -> list[Panel]:
    base = _base(quick, arrivals="zipf")
    return [
        _sweep("Zipf gaps, 100 queries, selectivity 0.5", quick, base),
        _sweep("Zipf gaps, 100 queries, random selectivity", quick, replace(base, selectivity=RANDOM)),
    ]
