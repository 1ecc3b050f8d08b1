"""Makes figure 7 of the paper on placement: the share of late tuples over the number of V2V tuples, for two allocations
and two rules.

The model is solved once, for 15 V2V tuples, as in the paper. V2V tuples are 50 ms old when they arrive. On node 1 they
arrive just before the sensors' tuples; on node 2 the centre's arrive before anything from node 1. Outputs 1 and 2 are
counted: output 3 cannot be late. The paper's machines were two Raspberry Pis; node factors and jitter are fitted to the
four figures that the text gives. There are two readings: `tuples`, every tuple on its own (the paper batches nothing),
and `parcels`, a source's tuples handed on together, as its worked example counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

import numpy as np

from kigen_lab.plans.paper_example import Shape, paper_example
from kigen_lab.reproduce.figure import Request, Table
from kigen_lab.reproduce.placement.allocations import DEADLINE, EXISTING, allocations
from kigen_lab.simulate.nodes.cost_jitter import Jitter
from kigen_lab.simulate.nodes.model import System, singles
from kigen_lab.simulate.nodes.node_simulation import simulate_nodes
from kigen_lab.simulate.nodes.placed import once, system_of

SOLVED_FOR, AGE_US = 15, {"v2v": 50_000.0}
COUNTED = ("out1", "out2")
JITTER = Jitter({"node1": 0.68, "node2": 1.2}, trial=0.25, call=0.3)
COMBINATIONS = ((DEADLINE, "edf"), (EXISTING, "edf"), (DEADLINE, "fifo"), (EXISTING, "fifo"))
LABELS = tuple(f"{allocation}.{rule.upper()}" for allocation, rule in COMBINATIONS)
PUBLISHED = dict(zip(LABELS, (0.0211, 0.156, 0.409, 0.555), strict=True))
READINGS = ("tuples", "parcels")
MANY = 400  # trials at the published point: with 50, means are uncertain by some points
_SEED = 6


@cache
def _systems(shape: Shape) -> dict[str, System]:
    return {
        name: system_of(paper_example(SOLVED_FOR, shape), placement)
        for name, placement in allocations(SOLVED_FOR, shape).items()
    }


def point(reading: str, n: int, trials: int, shape: Shape = "chain", seed: int = _SEED) -> dict[str, list[float]]:
    """Returns the share of late tuples in each trial, by combination. Combinations of a trial share the machine's
    factors.
    """
    given = once(paper_example(n, shape), AGE_US)
    given.sort(key=lambda release: release.stream != "v2v")
    releases = [part for release in given for part in singles(release)] if reading == "tuples" else given
    found: dict[str, list[float]] = {}
    for label, (allocation, rule) in zip(LABELS, COMBINATIONS, strict=True):
        system = _systems(shape)[allocation]
        for trial in range(trials):
            cost = JITTER.trial_of(tuple(system.speeds), (seed, n, trial))
            late, all_of_them = simulate_nodes(system, releases, rule, cost=cost).missed(COUNTED)
            found.setdefault(label, []).append(late / all_of_them)
    return found


def dmr(request: Request) -> dict[str, Any]:
    counts = (5, 10, 15, 20, 25, 30) if request.quick else tuple(range(5, 31))
    trials = request.seeds or (20 if request.quick else 50)
    panels = []
    for reading, points in zip(READINGS, _points(request, counts, trials), strict=True):
        series = {label: _curve(counts, [found[label] for found in points]) for label in LABELS}
        panels.append({"reading": reading, "series": series, "order": _order(counts, series)})
    many = point(READINGS[0], SOLVED_FOR, trials if request.quick else MANY, seed=_SEED + 1)
    systems = _systems("chain")
    return {
        "name": request.name,
        "trials": trials,
        "solved_for": SOLVED_FOR,
        "jitter": {"node": dict(JITTER.node), "trial": JITTER.trial, "call": JITTER.call},
        "tasks": {name: [_task(task) for task in system.tasks] for name, system in systems.items()},
        "panels": panels,
        "published": {"v2v_tuples": SOLVED_FOR, "late": PUBLISHED},
        "at_published": {label: _curve((SOLVED_FOR,), [shares]) for label, shares in many.items()},
    }


def _task(task: Any) -> dict[str, Any]:
    return {
        "node": task.node,
        "operators": [step.operator for step in task.steps],
        "sub_deadline_ms": task.deadline_us / 1000,
    }


def _points(request: Request, counts: tuple[int, ...], trials: int) -> Iterator[list[dict[str, list[float]]]]:
    workers = request.workers or os.cpu_count() or 1
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for reading in READINGS:
            request.on_progress(f"figure 7, {reading}", 0, len(counts))
            made = []
            for found in pool.map(point, [reading] * len(counts), counts, [trials] * len(counts)):
                made.append(found)
                request.on_progress(f"figure 7, {reading}", len(made), len(counts))
            yield made


def _curve(counts: tuple[int, ...], shares: list[list[float]]) -> dict[str, Any]:
    return {
        "x": list(counts),
        "mean": [round(float(np.mean(one)), 6) for one in shares],
        "error": [round(float(np.std(one) / len(one) ** 0.5), 6) for one in shares],
        "trials": [[round(value, 6) for value in one] for one in shares],
    }


def _order(counts: tuple[int, ...], series: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns for each n whether DeadlineAlloc.EDF < ExistingAlloc.EDF < DeadlineAlloc.FIFO < ExistingAlloc.FIFO."""
    rows = []
    for index, n in enumerate(counts):
        means = {label: series[label]["mean"][index] for label in LABELS}
        broken = [f"{a} >= {b}" for a, b in pairwise(LABELS) if means[a] >= means[b]]
        rows.append({"v2v_tuples": n, "late": means, "order_holds": not broken, "broken": broken})
    return rows


def dmr_tables(result: dict[str, Any]) -> list[Table]:
    tables = []
    for panel in result["panels"]:
        rows = []
        for row in panel["order"]:
            n = row["v2v_tuples"]
            holds = "yes" if row["order_holds"] else "no: " + "; ".join(row["broken"])
            cells = [
                f"{100 * row['late'][label]:.1f}" + (f" ({100 * PUBLISHED[label]:.1f})" if n == SOLVED_FOR else "")
                for label in LABELS
            ]
            if not n % 5:
                rows.append((f"{n}", *cells, holds))
        title = f"Late, % of outputs 1 and 2, {result['trials']} trials; reading: {panel['reading']} (published)"
        tables.append(Table(title, ("V2V tuples", *LABELS, "order"), tuple(rows)))
    many = result["at_published"]
    trials = len(many[LABELS[0]]["trials"][0])
    cells = [
        f"{100 * many[label]['mean'][0]:.1f} ±{100 * many[label]['error'][0]:.1f} ({100 * PUBLISHED[label]:.1f})"
        for label in LABELS
    ]
    tables.append(
        Table(
            f"The same, {SOLVED_FOR} V2V tuples, {trials} other trials (published)",
            ("", *LABELS),
            (("tuples", *cells),),
        )
    )
    return tables
