"""Runs the experiments of the shared-join paper: each window set by stages, and, beyond the paper, loads at which even
FIFO drops.

Runs are in virtual time, in processes of their own. Invariant: a result depends only on the setting. Quick runs have
buffers and stages of a tenth, which leaves all loads as they are. Cost: some seconds per run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

from kigen.plan.shared_joins.window_hull import window_hull
from kigen.schedule.slices import make_slice_policy
from kigen_lab.simulate.shared_joins.bound import fifo_limit, least_drops
from kigen_lab.simulate.shared_joins.join_simulation import JoinSetting, simulate_join
from kigen_lab.simulate.shared_joins.window_sets import PAPER_ORDERS, paper_windows

SPEED = 6.6  # tuples per second, fully processed
AHEAD = 400.0  # periods of half a second: the best look-ahead for adMandF over all nine sets
OVERLOADS = (1.5, 2.0)  # multiples of the load at which FIFO begins to drop
QUICK = 10


@dataclass(frozen=True)
class Curve:
    """A policy and its settings."""

    label: str
    policy: str
    ahead: float | None = None  # in periods


CURVES = (
    Curve("MQT", "mqt"),
    Curve("FIFO", "fifo"),
    Curve("MandF", "mandf"),
    Curve("adMandF, letter", "admandf"),
    Curve("adMandF", "admandf", AHEAD),
    Curve("salvage", "salvage"),
)
OVERLOAD_CURVES = tuple(curve for curve in CURVES if curve.label in ("MQT", "FIFO", "adMandF", "salvage"))


@dataclass(frozen=True)
class Run:
    """One run: of a curve at a load, or of the bound."""

    setting: JoinSetting
    load: float
    curve: Curve | None
    quick: bool = False


def paper_setting(name: str, quick: bool) -> JoinSetting:
    setting = JoinSetting(paper_windows(name), SPEED)
    if not quick:
        return setting
    return replace(
        setting,
        buffer=setting.buffer // QUICK,
        stages=tuple((seconds / QUICK, rate) for seconds, rate in setting.stages),
    )


def do_run(run: Run) -> dict[str, Any]:
    setting = run.setting.scaled(run.load)
    if run.curve is None:
        bound = least_drops(setting)
        return {"offered": bound.offered, "dropped": round(bound.dropped, 1)}
    settings = {} if run.curve.ahead is None else {"ahead": run.curve.ahead / (QUICK if run.quick else 1)}
    policy = run.curve.policy
    outcome = simulate_join(setting, lambda hull, buffers: make_slice_policy(policy, hull, buffers, **settings))
    return {
        "processed": [round(stage.processed_rate, 5) for stage in outcome.stages],
        "dropped": [round(stage.dropped_rate, 5) for stage in outcome.stages],
        "dropped_at_start": outcome.stages[-1].dropped_at_start,
        "dropped_queries": outcome.dropped,
    }


def run_window_set(
    name: str, quick: bool, on_progress: Callable[[int, int], None], workers: int | None = None
) -> dict[str, Any]:
    """Runs all curves by stages at the paper's rates, and the overload's curves and the bound at each load.

    Overloads are run in stages and at an even rate.
    """
    setting = paper_setting(name, quick)
    even = replace(setting, stages=((setting.end_s, setting.speed / setting.streams),))
    limits = {"stages": fifo_limit(setting), "even": fifo_limit(even)}
    stage_runs = [Run(setting, 1.0, curve, quick) for curve in CURVES]
    loads = [(kind, one, times) for kind, one in (("stages", setting), ("even", even)) for times in OVERLOADS]
    overload_runs = [
        Run(one, times * limits[kind], curve, quick) for kind, one, times in loads for curve in (None, *OVERLOAD_CURVES)
    ]
    results = _all([*stage_runs, *overload_runs], on_progress, workers)
    stages = {run.curve.label: result for run, result in zip(stage_runs, results, strict=False) if run.curve}
    rows = iter(results[len(stage_runs) :])
    overload = []
    for kind, _, times in loads:
        bound = next(rows)
        drops = {curve.label: next(rows)["dropped_queries"] for curve in OVERLOAD_CURVES}
        overload.append(
            {"arrivals": kind, "times": times, "offered": bound["offered"], "bound": bound["dropped"], "dropped": drops}
        )
    hull = window_hull(setting.windows)
    return {
        "windows": list(setting.windows),
        "order": hull.order,
        "order_published": PAPER_ORDERS.get(name),
        "setting": {
            "speed": setting.speed,
            "buffer": setting.buffer,
            "stages": setting.stages,
            "ahead": AHEAD / (QUICK if quick else 1),
        },
        "fifo_limit": {kind: round(limit, 4) for kind, limit in limits.items()},
        "stages": stages,
        "overload": overload,
    }


def _all(runs: list[Run], on_progress: Callable[[int, int], None], workers: int | None) -> list[dict[str, Any]]:
    results: dict[int, dict[str, Any]] = {}
    on_progress(0, len(runs))
    with ProcessPoolExecutor(min(len(runs), workers or os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(do_run, run): index for index, run in enumerate(runs)}
        for done, future in enumerate(as_completed(waiting), 1):
            results[waiting[future]] = future.result()
            on_progress(done, len(runs))
    return [results[index] for index in range(len(runs))]
