"""Turns the arguments of `kigen bench lifetimes` into settings, and checks them before anything starts."""

from __future__ import annotations

from pathlib import Path

from kigen.engine import ArgumentError, RunOptions
from kigen_lab.bench.lifetimes.benchmark import Settings
from kigen_lab.bench.lifetimes.newer_queries import BY_NAME, PARTS
from kigen_lab.bench.lifetimes.queries import KINDS, WINDOWS

QUICK_WINDOWS = (10, 10_000, 1_000_000)
SMALLEST_WINDOW = 2  # each of two streams has half of it
FEWEST_TUPLES = 1_000


def lifetimes_settings(
    quick: bool,
    out: Path,
    queries: list[str] | None,
    windows: list[int] | None,
    kind: str | None,
    trials: int | None,
    tuples: int | None,
    part: str = "all",
) -> Settings:
    unknown = [name for name in queries or () if name not in BY_NAME]
    if unknown:
        raise ArgumentError(f"no query '{unknown[0]}' in this benchmark: there is {', '.join(BY_NAME)}")
    small = [w for w in windows or () if w < SMALLEST_WINDOW]
    if small:
        raise ArgumentError(f"a window of at least {SMALLEST_WINDOW} tuples is required, not {small[0]}")
    if trials is not None and trials < 1:
        raise ArgumentError(f"at least one trial is required, not {trials}")
    if tuples is not None and tuples < FEWEST_TUPLES:
        raise ArgumentError(f"at least {FEWEST_TUPLES} tuples are required, not {tuples}")
    batch_rows = RunOptions().first_batch_rows
    return Settings(
        queries=tuple(dict.fromkeys(queries or [query.name for query in PARTS[part]])),
        windows=tuple(sorted(set(windows or (QUICK_WINDOWS if quick else WINDOWS)))),
        kinds=KINDS if kind in (None, "both") else (kind,),
        trials=trials or 3,
        nt_trials=1 if quick else trials or 3,
        tuples=tuples or (16_000_000 if quick else 24_000_000),
        newer_tuples=tuples or (4_000_000 if quick else 6_000_000),
        kernel_tuples=tuples or (2_500_000 if quick else 4_000_000),
        exactly=tuples is not None,
        plain_tuples=100_000 if quick else 400_000,
        batch_rows=batch_rows if tuples is None else min(batch_rows, max(1, tuples // 5)),
        out=out,
    )
