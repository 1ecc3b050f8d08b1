"""Runs an experiment: a grid of simulated runs over settings, variants and seeds.

Runs over one workload share it. Work is spread over processes. Invariant: a result depends only on settings and seeds,
not on how the work is spread. Cost: about 10 microseconds per decision.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from typing import Any

import numpy as np

from kigen.schedule import PolicySettings
from kigen_lab.simulate import Setting, draw, run_policy

OnProgress = Callable[[int, int], None]  # takes (done, of)
FIRST_SEED = 100  # earlier seeds were used to choose settings
METRICS = ("sdmr", "cpu", "overhead_us", "decisions", "mean_k")


@dataclass(frozen=True)
class Variant:
    """One curve: a policy with its settings."""

    label: str
    policy: str
    settings: PolicySettings = field(default_factory=PolicySettings)


@dataclass(frozen=True)
class Job:
    """One workload and the variants to run over it. `x` is its place on the figure's axis."""

    x: float
    setting: Setting
    variants: tuple[Variant, ...]


def run_job(job: Job) -> dict[str, dict[str, float]]:
    workload = draw(job.setting)
    outcomes = {v.label: run_policy(v.policy, workload, v.settings, job.setting.seed) for v in job.variants}
    return {
        label: {metric: float(getattr(outcome, metric)) for metric in METRICS} for label, outcome in outcomes.items()
    }


def run_jobs(jobs: Sequence[Job], seeds: int, on_progress: OnProgress, workers: int | None = None) -> dict[str, Any]:
    """Runs every job with each seed.

    Returns for each variant and metric the mean and standard deviation at each x, and the single values.
    """
    spread = [
        replace(job, setting=replace(job.setting, seed=seed))
        for job in jobs
        for seed in range(FIRST_SEED, FIRST_SEED + seeds)
    ]
    results: dict[int, dict[str, dict[str, float]]] = {}
    workers = min(len(spread), workers or os.cpu_count() or 1)
    on_progress(0, len(spread))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(run_job, job): index for index, job in enumerate(spread)}
        for done, future in enumerate(as_completed(waiting), 1):
            results[waiting[future]] = future.result()
            on_progress(done, len(spread))
    return _series(spread, results)


def _series(jobs: Sequence[Job], results: dict[int, dict[str, dict[str, float]]]) -> dict[str, Any]:
    series: dict[str, Any] = {}
    for label in dict.fromkeys(v.label for job in jobs for v in job.variants):
        found: dict[float, list[dict[str, float]]] = {}
        for index, job in enumerate(jobs):
            if label in results[index]:
                found.setdefault(job.x, []).append(results[index][label])
        curve: dict[str, Any] = {"x": list(found)}
        for metric in METRICS:
            values = [[one[metric] for one in ones] for ones in found.values()]
            curve[metric] = {
                "mean": [round(float(np.mean(v)), 6) for v in values],
                "sd": [round(float(np.std(v)), 6) for v in values],
                "seeds": [[round(one, 6) for one in v] for v in values],
            }
        series[label] = curve
    return series
