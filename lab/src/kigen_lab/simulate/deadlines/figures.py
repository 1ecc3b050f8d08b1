"""Simulates the figures of decision 025 and prints them as JSON: `python -m kigen_lab.simulate.deadlines.figures`.

They are simulated, with the policies that run on Spark. Cost: some minutes.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kigen.schedule import Policy, PolicySettings, ScheduledTask, make_policy
from kigen_lab.simulate.deadlines.classes import BATCH_CLASSES_S, Classes, draw_classes
from kigen_lab.simulate.deadlines.rounds import RoundCosts, RoundsOutcome, simulate_rounds

SEEDS = (1, 2, 3)
ROUNDS = ((0.5, 500.0), (0.85, 500.0), (0.85, 1_500.0), (1.3, 500.0))  # load, A
BATCHES = ((270_000.0, 0.22), (370_000.0, 0.22))  # F, load


def _run(name: str, setting: Classes, costs: RoundCosts, guess_us: float) -> RoundsOutcome:
    def make(tasks: Sequence[ScheduledTask]) -> Policy:
        return make_policy(name, tasks, PolicySettings(fixed_us=guess_us))

    return simulate_rounds(draw_classes(setting), make, costs, setting.lanes, setting.seed)


def cell(
    name: str, setting: Classes, costs: RoundCosts, guess_us: float, seeds: Sequence[int] = SEEDS
) -> dict[str, Any]:
    """Returns one cell: medians over seeds, in per cent."""
    runs = [_run(name, Classes(**{**asdict(setting), "seed": seed}), costs, guess_us) for seed in seeds]
    classes = {
        str(deadline_s): round(100 * statistics.median(run.sdmr_of(deadline_s) for run in runs), 2)
        for deadline_s in runs[0].classes
    }
    return {
        "policy": name,
        "load": setting.load,
        "fixed_ms": costs.fixed_us / 1000,
        "task_ms": costs.task_us / 1000,
        "measured": costs.measured,
        "missed": round(100 * statistics.median(run.sdmr for run in runs), 2),
        "missed_of_class": classes,
        "in_time": round(statistics.median(run.in_time for run in runs), 3),
        "latency_ms_p50": round(statistics.median(run.latency_us[0] for run in runs) / 1000, 1),
    }


def figures(seconds: float = 45.0, seeds: Sequence[int] = SEEDS) -> dict[str, Any]:
    """Returns all cells."""
    cells = []
    for load, task_us in ROUNDS:
        for name in ("pack", "all"):
            costs = RoundCosts(task_us=task_us)
            cells.append(cell(name, Classes(load=load, seconds=seconds), costs, 2_000.0, seeds))
    batches = []
    for fixed_us, load in BATCHES:
        setting = Classes(load=load, lanes=1, tuple_us=91.0, classes_s=BATCH_CLASSES_S, seconds=seconds)
        for name, measured in (("pack", True), ("pack", False), ("all", True)):
            costs = RoundCosts(fixed_us=fixed_us, task_us=0.0, epoch_us=None, measured=measured)
            batches.append(cell(name, setting, costs, 200_000.0, seeds))
    settings = {"seconds": seconds, "seeds": list(seeds), "lanes": 2, "tuple_us": 150, "gap_s": 0.2, "epoch_s": 30}
    return {"simulated": True, "settings": settings, "rounds": cells, "micro_batches": batches}


if __name__ == "__main__":
    json.dump(figures(), sys.stdout, indent=1)
